// Tables that sort by a click or Enter on a column's head, and filter by words.

/** Rows shown at first; further rows are shown on request. */
const kRowsShown = 100;

/** Columns as for table(), and {sort(row)}: a number or a text to sort by, by default the cell's text.
 *  `choice`: {title, of(row)}, a list to choose from. A row is kept if it has every word. */
function sortedTable(caption, columns, rows, choice) {
  const state = {column: -1, up: true, words: [], chosen: '', all: false};
  const box = element('div', {}), place = element('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption});
  const count = element('span', {role: 'status'});
  const made = rows.map((row) => ({row, cells: columns.map((column) => column.cell(row))}));
  for (const line of made) line.text = line.cells.map((cell) => typeof cell === 'string' ? cell : cell.textContent).join(' ').toLowerCase();
  const keyOf = (line) => {
    const column = columns[state.column];
    return column.sort ? column.sort(line.row) : line.cells[state.column].textContent ?? line.cells[state.column];
  };
  function draw() {
    let lines = made.filter((line) => state.words.every((word) => line.text.includes(word)) && (!state.chosen || choice.of(line.row) === state.chosen));
    if (state.column >= 0) {
      lines = lines.map((line, i) => [keyOf(line), i, line]).sort(([a, i], [b, j]) => (a < b ? -1 : a > b ? 1 : 0) * (state.up ? 1 : -1) || i - j).map(([, , line]) => line);
    }
    const shownLines = state.all ? lines : lines.slice(0, kRowsShown);
    const cells = new Map(shownLines.map((line) => [line.row, line.cells]));
    const drawn = table(caption, columns.map((column, c) => ({...column, cell: (row) => cells.get(row)[c]})), shownLines.map((line) => line.row));
    drawn.querySelectorAll('thead th').forEach((head, c) => {
      const button = element('button', {type: 'button'}, columns[c].title);
      button.addEventListener('click', () => {
        state.up = state.column === c ? !state.up : !columns[c].number;
        state.column = c;
        draw();
        place.querySelectorAll('thead button')[c].focus();
      });
      head.replaceChildren(button);
      if (c === state.column) head.setAttribute('aria-sort', state.up ? 'ascending' : 'descending');
    });
    place.replaceChildren(drawn);
    more.hidden = state.all || lines.length <= kRowsShown;
    more.textContent = `Show all ${lines.length}`;
    const text = lines.length === rows.length ? `${rows.length} rows` : `${lines.length} of ${rows.length} rows`;
    if (count.textContent !== text) count.textContent = text;
  }
  const more = element('button', {type: 'button'});
  more.addEventListener('click', () => { state.all = true; draw(); place.focus(); });
  const words = element('input', {type: 'search'});
  words.addEventListener('input', () => { state.words = words.value.toLowerCase().split(/\s+/).filter(Boolean); draw(); });
  const tools = element('div', {class: 'tools'}, element('label', {}, 'Only with the words ', words));
  const found = choice ? [...new Set(rows.map(choice.of))] : [];
  if (found.length > 1) {
    const list = element('select', {}, element('option', {value: ''}, 'all'), ...found.map((value) => element('option', {value}, value)));
    list.addEventListener('change', () => { state.chosen = list.value; draw(); });
    tools.append(element('label', {}, `${choice.title} `, list));
  }
  tools.append(count);
  if (rows.length > 5) box.append(tools);
  box.append(place, more);
  draw();
  return box;
}
