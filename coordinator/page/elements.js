// Elements made from data. Data of ranks is inserted as text, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  made.append(...children.filter((child) => child !== undefined && child !== ''));
  return made;
}

/** Columns: {title, number, name, cell(row)}; on a narrow screen a row becomes a block. */
function table(caption, columns, rows) {
  const head = element('tr', {}, ...columns.map((column) =>
    element('th', {scope: 'col', class: column.number && 'number'}, column.title)));
  const body = rows.map((row) => element('tr', {class: row.class}, ...columns.map((column) =>
    element('td', {'data-label': column.title, class: column.number ? 'number' : column.name && 'name'}, column.cell(row)))));
  return element('table', {class: 'stack'}, element('caption', {}, caption), element('thead', {}, head), element('tbody', {}, ...body));
}

/** A set of ranks; a long list is folded and shows the whole list when it is opened. */
function ranksElement(text) {
  const whole = ranksText(text);
  if (whole.length <= 120) return whole;
  return element('details', {class: 'set'}, element('summary', {}, `ranks ${text.slice(0, text.lastIndexOf(',', 40)).replaceAll(',', ', ')}, … (${countOf(text)})`), element('div', {tabindex: '0'}, whole));
}

const none = (text) => element('p', {class: 'none'}, text);
const tag = (text, kind) => element('span', {class: `tag ${kind}`}, text);

function secondsText(seconds) {
  if (seconds < 0.001) return seconds > 0 ? `${Math.round(seconds * 1e6)} µs` : '0 s';
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

function operationText(at) {
  if (!at.operation) return 'no operation yet';
  const group = at.group === '0' ? '' : ` of ${at.group_name || at.group}`;
  return `${at.operation} ${at.ordinal}${group}`;
}

/** Puts `make()` into the element `where`, but only if `data` has changed since the last time: so
 *  an unchanged element keeps its focus, and stays open if it is open. */
const shown = new Map();
function show(where, data, make) {
  const key = JSON.stringify(data);
  if (shown.get(where) === key) return;
  shown.set(where, key);
  where.replaceChildren(...[make()].flat());
}
