// The parts of the report, each made from the document.

const one = (n, word, many = `${word}s`) => `${n} ${n === 1 ? word : many}`;
const distinctText = (dim) => dim.distinct >= 256 ? '256 or more' : `${dim.distinct}`;
const rangeText = (dim) => dim.least === dim.greatest ? `${dim.least}` : `${dim.least} to ${dim.greatest}`;
const leftOut = (n, what) => n > 0 ? none(`${one(n, what)} more ${n === 1 ? 'is' : 'are'} left out of this page; the JSON document has all.`) : '';

/** Shows {ranks, count}: all of the ranks, or their first runs. */
function someRanks({ranks, count}) {
  const whole = ranksText(ranks);
  if (countOf(ranks) === count) return ranksElement(ranks);
  return `ranks ${ranks.split(',').slice(0, 6).join(', ')}, … (${count})`;
}

function fill(id, ...children) {
  const section = byId(id), made = children.flat().filter((child) => child !== undefined && child !== '');
  section.classList.toggle('empty', made.length === 0);
  section.querySelector('div').replaceChildren(...made);
}

function showBanner({verdict, name, recorded}) {
  byId('banner').className = verdict.mood;
  byId('verdict').textContent = `${{ok: '✓', warn: '…', bad: '✕'}[verdict.mood]} ${verdict.word}`;
  byId('sentence').replaceChildren(...verdict.sentences.map((text) => element('p', {}, text)));
  byId('connection').textContent = `${recorded ? 'record' : 'scenario'} ${name}`;
  document.title = `${verdict.word} · ${name} · lockstep dry run`;
}

function showFacts({world_size: ranks, totals}) {
  const facts = [[ranks, ranks === 1 ? 'rank' : 'ranks'], [totals.calls, 'calls'], [totals.compiles, 'compiled'], [totals.reuses, 'reused'],
    [totals.fallbacks, 'fell back'], [totals.errors, 'errors'], [totals.rounds, 'rounds of agreement'], [shortNumber(totals.bytes_per_rank_max), 'bytes received by a rank at most']];
  byId('facts').replaceChildren(...facts.map(([value, what]) => element('li', {}, element('b', {}, `${value}`), ' ', element('span', {}, what))));
}

function obstacleItem(o) {
  const on = ['on ', someRanks(o.on)];
  if (!o.source) return element('li', {}, `${o.needs} `, ...on);
  if (o.mark) return element('li', {}, element('code', {}, o.source), ` is marked ${o.mark} `, ...on, `, in the entry it is ${o.needs}`);
  const truth = o.needs === 'true' || o.needs === 'false', value = truth ? `${o.least !== 0}` : rangeText(o);
  return element('li', {}, element('code', {}, o.source), ` is ${value} `, ...on, `; the entry ${o.needs.startsWith('at least') ? 'needs' : 'has'} ${o.needs}`);
}

function whyItem(at) {
  const heading = at.entry >= 0 ? `call ${at.call} of ${at.frame} made entry ${at.entry}` : `call ${at.call} of ${at.frame} fell back`;
  const why = element('div', {class: 'why'}, element('h3', {}, heading));
  if (at.entries.length === 0) why.append(none('The first call of the frame.'));
  for (const entry of at.entries) {
    if (entry.on.count === 0) {
      why.append(element('p', {class: 'hint'}, `Every size fits entry ${entry.entry}; a guard of its trace does not hold.`));
      continue;
    }
    why.append(element('p', {class: 'hint'}, `Entry ${entry.entry} does not fit `, someRanks(entry.on), ':'), element('ul', {}, ...entry.obstacles.map(obstacleItem)));
    if (entry.left_out) why.append(none(`and ${one(entry.left_out, 'other value')}`));
  }
  return why;
}

function showRecompiles({recompiles, left_out: left}) {
  const shown = recompiles.slice(0, 12), rest = recompiles.slice(12);
  const folded = element('details', {}, element('summary', {}, one(rest.length, 'more such call')));
  folded.addEventListener('toggle', () => { if (folded.open && folded.children.length === 1) folded.append(...rest.map(whyItem)); });
  fill('recompiles', recompiles.length === 0 ? none('Nothing was compiled.') : shown.map(whyItem), rest.length ? folded : '', leftOut(left.recompiles, 'such call'));
}

function showMarks({marks, ways, totals}) {
  const parts = [];
  if (marks.cpp) {
    const marked = ways.find((way) => way.way === 'lockstep_marked');
    parts.push(element('p', {}, 'These sizes were constants in one entry and dynamic in a later one. Marked, they are dynamic from the first compile on' + (!marked ? '.' : marked.calls.compiled < totals.compiles ? `: ${one(marked.calls.compiled, 'compile')} in place of ${totals.compiles}.` : '; this saves no compile here, as other reasons remain.')),
      element('h3', {}, 'C++'), element('pre', {tabindex: '0'}, marks.cpp), element('h3', {}, 'Python'), element('pre', {tabindex: '0'}, marks.python),
      element('h3', {}, 'Scenario: add to these inputs in every call of the frame, and under “instead”'), element('pre', {tabindex: '0'}, marks.scenario));
  }
  if (marks.torch) parts.push(element('h3', {}, 'PyTorch, before each call'), element('pre', {tabindex: '0'}, marks.torch));
  if (marks.ints) parts.push(none(`${one(marks.ints, 'int')} became dynamic, too; ints take no mark, a stored profile (a job id) keeps what was learnt of them.`));
  fill('marks', parts);
}

const kWayWords = {uncoordinated: 'no coordination', upstream: "upstream's way", lockstep: 'lockstep', lockstep_with_profile: 'lockstep, next run', lockstep_marked: 'lockstep, marked'};

function causeItem({way, cause}) {
  return element('div', {class: 'why'}, element('h3', {}, `${kWayWords[way] ?? way}: why ranks part ways in call ${cause.call} of ${cause.frame}`), element('p', {class: 'hint'}, cause.message),
    element('ul', {}, ...cause.groups.map((group) => element('li', {}, element('code', {}, cause.source), ` is ${rangeText(group)} on `, someRanks(group)))));
}

function showWays({ways}) {
  fill('compare', ways.length === 0 ? [] : [table('Calls by what they came to for the worst-off rank; an error is one of all ranks, or a call that some ranks make in vain. Upstream exchanges sizes and votes on hits; the next run has a stored profile; marked: as suggested above', [
    {title: 'Way', name: true, cell: (way) => kWayWords[way.way] ?? way.way},
    {title: 'Compiles on a rank', number: true, cell: (way) => `${way.compiles_per_rank_max}`},
    {title: 'Restarts on a rank', number: true, cell: (way) => `${way.restarts_per_rank_max}`},
    {title: 'Compiled', number: true, cell: (way) => `${way.calls.compiled}`},
    {title: 'Reused', number: true, cell: (way) => `${way.calls.reused}`},
    {title: 'Fell back', number: true, cell: (way) => `${way.calls.fallback}`},
    {title: 'Errors', number: true, cell: (way) => `${way.calls.error}`},
    {title: 'Graphs in one call', number: true, cell: (way) => `${way.distinct_graphs_max}`},
    {title: 'Ranks part ways', name: true, cell: (way) => way.first_divergent_call === null ? tag('never', 'ok') : tag(`call ${way.first_divergent_call}`, 'bad')}], ways), ...ways.filter((way) => way.cause).map(causeItem)]);
}

function showSweep({sweep}) {
  if (!sweep) return fill('sweep', []);
  const {parameter, rows} = sweep, x = (row) => row.value, plots = element('div', {class: 'plots'});
  plots.append(linePlot('Compiles', rows, x, parameter, {name: 'compiles', of: (row) => row.compiles}),
    linePlot('Bytes received by a rank at most', rows, x, parameter, {name: 'bytes', of: (row) => row.bytes_per_rank_max}));
  if (rows.every((row) => row.uncoordinated)) plots.append(linePlot('Compiles on a rank without coordination', rows, x, parameter, {name: 'compiles', of: (row) => row.uncoordinated.compiles_per_rank_max}));
  if (rows.every((row) => row.agreement_ns !== undefined)) plots.append(linePlot('Milliseconds of agreement over the run', rows, x, parameter, {name: 'ms', of: (row) => row.agreement_ns / 1e6}));
  fill('sweep', plots, sortedTable('A row per value', [
    {title: parameter, number: true, cell: (row) => `${row.value}`, sort: x},
    ...['compiles', 'reuses', 'fallbacks', 'errors', 'bytes_per_rank_max', 'rounds'].map((key) => ({title: key === 'bytes_per_rank_max' ? 'bytes on a rank' : key, number: true, cell: (row) => `${row[key]}`, sort: (row) => row[key]})),
    {title: 'compiles alone', number: true, cell: (row) => row.uncoordinated ? `${row.uncoordinated.compiles_per_rank_max}` : '–'},
    {title: 'part ways alone', name: true, cell: (row) => !row.uncoordinated ? '–' : row.uncoordinated.first_divergent_call === null ? 'never' : `call ${row.uncoordinated.first_divergent_call}`},
    {title: 'agreement', number: true, cell: (row) => row.agreement_ns === undefined ? '–' : secondsText(row.agreement_ns / 1e9), sort: (row) => row.agreement_ns ?? 0}], rows));
}

function showWaits({waits, world_size: ranks}) {
  fill('waits', !waits || waits.bins.length === 0 ? [] : [waitsPlot(waits, ranks), none(`of ${secondsText(waits.end_ns / 1e9)} that the run takes by its cost model`)]);
}

function showErrors({errors, left_out: left}) {
  fill('errors', errors.length === 0 ? [] : [sortedTable('Calls that all ranks end with the same error', [
    {title: 'Call', number: true, cell: (at) => `${at.call}`, sort: (at) => at.call},
    {title: 'Frame', cell: (at) => at.frame ?? '–'},
    {title: 'Error', name: true, cell: (at) => element('span', {}, tag(at.code, 'bad'))},
    {title: 'About', cell: (at) => element('code', {}, at.source)},
    {title: 'Ranks and values', cell: (at) => element('ul', {}, ...at.groups.map((group) => element('li', {}, `${group.value || 'no mark'}: `, someRanks(group.on))), at.groups_all > at.groups.length ? element('li', {}, `and ${one(at.groups_all - at.groups.length, 'other group')}`) : '')},
    {title: 'Message', cell: (at) => at.message}], errors, {title: 'Error', of: (at) => at.code}), leftOut(left.errors, 'error')]);
}

function showFaults({faults}) {
  fill('faults', !faults ? [] : [sortedTable('Each fault as if it were the only one', [
    {title: 'Fault', name: true, cell: (at) => at.fault},
    {title: 'Ranks', cell: (at) => ranksElement(at.ranks)},
    {title: 'Detected', cell: (at) => at.detected ? tag(at.detected, 'bad') : at.struck ? 'nothing to detect' : 'never strikes'},
    {title: 'After', number: true, cell: (at) => at.after || '–', sort: (at) => parseFloat(at.after) || 0},
    {title: 'Names', cell: (at) => at.named ? ranksElement(at.named) : '–'},
    {title: 'The job', cell: (at) => at.ends ? element('b', {}, at.job) : at.job},
    {title: 'Message', cell: (at) => at.message || '–'}], faults.rows), element('p', {}, `With all of them together the job ${faults.together}.`)]);
}

function showDims({dims, dims_whole: whole, left_out: left}) {
  const varying = dims.filter((dim) => dim.least < dim.greatest).slice(0, 24);
  fill('dims', dims.length === 0 ? [] : [varying.length ? reachPlot(varying) : none('No size and no int varies.'),
    whole ? '' : none('Some ranks of each call were looked at; the least and greatest values are those that can be drawn.'),
    sortedTable('Over all calls and ranks', [
      {title: 'Frame', name: true, cell: (dim) => dim.frame},
      {title: 'Size or int', name: true, cell: (dim) => element('code', {}, dim.name)},
      {title: 'Least', number: true, cell: (dim) => `${dim.least}`, sort: (dim) => dim.least},
      {title: 'Greatest', number: true, cell: (dim) => `${dim.greatest}`, sort: (dim) => dim.greatest},
      {title: 'Values', number: true, cell: distinctText, sort: (dim) => dim.distinct},
      {title: 'Calls in which ranks differ', number: true, cell: (dim) => `${dim.calls_apart} of ${dim.calls}`, sort: (dim) => dim.calls_apart / dim.calls},
      {title: 'Last entry', name: true, cell: (dim) => dim.dynamic === null ? '–' : dim.dynamic ? tag('dynamic', 'ok') : 'a constant'}],
    dims, {title: 'Frame', of: (dim) => dim.frame}), leftOut(left.dims, 'size')]);
}

function showEntries({entries, left_out: left}) {
  fill('entries', entries.length === 0 ? [] : [sortedTable('What was compiled, and in how many calls it ran', [
    {title: 'Frame', name: true, cell: (at) => at.frame},
    {title: 'Entry', number: true, cell: (at) => `${at.entry}`, sort: (at) => at.entry},
    {title: 'Made in call', number: true, cell: (at) => `${at.call}`, sort: (at) => at.call},
    {title: 'Calls', number: true, cell: (at) => `${at.runs}`, sort: (at) => at.runs},
    {title: 'Symbols', number: true, cell: (at) => `${at.symbols}`, sort: (at) => at.symbols},
    {title: 'Decision', cell: (at) => element('div', {class: 'code tall', tabindex: at.decision.length > 200 && '0'}, at.decision)}], entries, {title: 'Frame', of: (at) => at.frame}), leftOut(left.entries, 'entry')]);
}

function showCalls({calls, outcomes, totals, left_out: left}) {
  fill('outcomes', totals.calls === 0 ? none('The scenario has no calls.') : outcomesPlot(outcomes, totals.calls));
  fill('calls', calls.length === 0 ? [] : [sortedTable('Calls that are alike and follow each other are one row', [
    {title: 'Call', number: true, cell: (at) => at.first === at.last ? `${at.first}` : `${at.first}–${at.last}`, sort: (at) => at.first},
    {title: 'Frame', name: true, cell: (at) => at.frame ?? '–'},
    {title: 'Outcome', name: true, cell: (at) => tag(at.outcome, {compiled: 'ok', fallback: 'warn', error: 'bad'}[at.outcome])},
    {title: 'Entry', name: true, cell: (at) => at.entries},
    {title: 'Detail', cell: (at) => element('div', {class: 'code tall', tabindex: at.detail.length > 200 && '0'}, at.detail)}], calls, {title: 'Outcome', of: (at) => at.outcome}), leftOut(left.calls, 'row')]);
}
