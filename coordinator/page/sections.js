// The sections of the page, each made from one job of the status document.

const kMoods = {OK: 'ok', ENDED: 'ok', WAITING: 'warn', DIVERGED: 'bad', FAILED: 'bad', STUCK: 'bad', LOST: 'bad'};
const kSigns = {ok: '✓', warn: '…', bad: '✕'};

function showBanner(job) {
  const {word, sentence} = job.headline, mood = kMoods[word] || 'bad';
  const banner = byId('banner');
  if (banner.className !== mood) banner.className = mood;
  // A screen reader must not read a text aloud every second if only its seconds have changed.
  const still = sentence.replace(/\d+ s\b/g, '');
  if (banner.dataset.still !== word + still) {
    banner.dataset.still = word + still;
    byId('verdict').textContent = `${kSigns[mood]} ${word}`;
  }
  banner.setAttribute('aria-live', 'polite');
  byId('sentence').textContent = sentence;
  document.title = `${word} · ${job.job} · lockstep`;
}

function showFacts(job) {
  const facts = [
    [`${job.size}`, job.size === 1 ? 'rank' : 'ranks'], [`${countOf(job.live)}`, 'connected'], [`${countOf(job.finished)}`, 'finished'],
    [`${countOf(job.absent)}`, 'not come'], [`${job.hosts.length}`, job.hosts.length === 1 ? 'host' : 'hosts'],
    [`${job.counters.reused}`, 'calls reused'], [`${job.counters.compiled}`, 'compiled'],
    [`${job.counters.fallbacks}`, 'fallbacks'], [`${job.counters.errors}`, 'errors'], [secondsText(job.age_seconds), 'old'],
  ];
  show(byId('facts'), facts, () => facts.map(([value, what]) => element('li', {}, element('b', {}, value), ' ', element('span', {}, what))));
}

function showFindings(job) {
  const section = byId('findings'), box = section.querySelector('div');
  section.hidden = job.findings.length === 0;
  show(box, job.findings.map(({kind, severity, message}) => [kind, severity, message]), () => job.findings.map((finding) =>
    element('p', {class: finding.message.length > 1500 ? 'finding long' : 'finding', tabindex: finding.message.length > 500 && '0'}, tag(finding.severity === 'note' ? finding.kind : `${finding.severity}: ${finding.kind}`, {act: 'bad', note: ''}[finding.severity] ?? 'warn'), finding.message)));
}

function showLegend(ranks) {
  const counts = new Array(kStates.length).fill(0);
  for (const state of ranks.state) ++counts[state];
  show(byId('legend'), counts, () => kStates.flatMap((state, i) => {
    if (counts[i] === 0) return [];
    const swatch = element('i', {class: 'swatch'});
    swatch.style.background = `var(--${state})`;
    return [element('li', {}, swatch, element('b', {}, `${counts[i]}`), ' ', element('span', {}, kStateWords[state]))];
  }));
}

function showText(job, ranks) {
  const states = kStates.map((state, i) => [state, ranksWhere(ranks.size, (rank) => ranks.state[rank] === i)]).filter(([, text]) => text);
  const box = byId('as-text').querySelector('div');
  if (!byId('as-text').open) return;
  show(box, [states, job.doing, job.hosts], () => [
    table('Ranks by what they do', [
      {title: 'State', name: true, cell: ([state]) => kStateWords[state]},
      {title: 'Ranks', cell: ([, text]) => ranksElement(text)}], states),
    table('What ranks were last seen doing; those that do the same together', [
      {title: 'Ranks', cell: (at) => ranksElement(at.ranks)},
      {title: 'Phase', name: true, cell: (at) => at.link === 'connected' ? (at.waiting ? 'waiting' : at.phase) : at.link},
      {title: 'Operation', cell: (at) => operationText(at)},
      {title: 'Last event', cell: (at) => at.event}], job.doing.slice(0, 500)),
    table('Hosts', [
      {title: 'Host', cell: (at) => at.host},
      {title: 'Ranks', cell: (at) => ranksElement(at.ranks)}], job.hosts)]);
}

function showWaits(job) {
  show(byId('waits').querySelector('div'), job.operations, () => job.operations.length === 0
    ? none('No rank waits for another.')
    : table('Operations in which ranks wait, the longest wait first', [
      {title: 'Operation', cell: (at) => operationText(at)},
      {title: 'For', number: true, cell: (at) => secondsText(at.seconds)},
      {title: 'In', cell: (at) => ranksElement(at.in)},
      {title: 'Not in', cell: (at) => ranksElement(at.not_in)},
      {title: 'Left it', cell: (at) => at.beside ? ranksElement(at.beside) : ''}], job.operations));
}

const outcomeTag = (outcome) => tag(outcome, {compiled: 'ok', fallback: 'warn', error: 'bad'}[outcome]);
const callName = (at) => `call ${at.call}${at.epoch ? `, epoch ${at.epoch}` : ''}${at.group ? ` of ${at.group}` : ''}`;

function versionsCell(call) {
  const named = (version) => `${version.graph ? version.graph.slice(0, 8) : version.code || version.outcome}`;
  if (call.versions.length === 1) return named(call.versions[0]);
  return element('ul', {}, ...call.versions.map((version) => element('li', {}, `${named(version)} on `, ranksElement(version.ranks))));
}

/** The calls without `seconds_ago`, which changes even if nothing has happened. */
const still = (calls) => calls.map((call) => ({...call, seconds_ago: 0}));

function showCalls(job) {
  const calls = job.calls.slice(0, 30);
  show(byId('calls').querySelector('div'), [still(calls), job.frames], () => calls.length === 0
    ? none('No call has been told of: nothing was compiled, fell back or failed since the ranks came.')
    : [table('Frames and attempts, the latest first; calls that reuse a program are only counted', [
      {title: 'Frame', cell: (at) => at.frame},
      {title: 'Call', name: true, cell: callName},
      {title: 'Attempts', number: true, cell: (at) => `${at.attempts}`},
      {title: 'Outcome', name: true, cell: (at) => outcomeTag(at.outcome)},
      {title: 'In', cell: (at) => ranksElement(at.told)},
      {title: 'Not in', cell: (at) => at.missing ? ranksElement(at.missing) : (at.group ? '' : 'none')},
      {title: 'Graph', cell: (at) => element('span', {class: 'code'}, versionsCell(at))}], calls),
    table('Frames', [
      {title: 'Frame', cell: (at) => at.frame},
      {title: 'Compiled', number: true, cell: (at) => `${at.compiled}`},
      {title: 'Fallbacks', number: true, cell: (at) => `${at.fallbacks}`},
      {title: 'Errors', number: true, cell: (at) => `${at.errors}`}], job.frames)]);
}

function showRecompiles(job) {
  const calls = job.calls.filter((call) => call.reasons.length > 0).slice(0, 50);
  show(byId('recompiles').querySelector('div'), still(calls), () => calls.length === 0
    ? none('Nothing was compiled since the ranks came.')
    : table('What made each of them necessary', [
      {title: 'Frame', cell: (at) => at.frame},
      {title: 'Call', name: true, cell: callName},
      {title: 'Outcome', name: true, cell: (at) => outcomeTag(at.outcome)},
      {title: 'Reason', cell: (at) => at.reasons.length === 1 ? at.reasons[0].text
        : element('ul', {}, ...at.reasons.map((reason) => element('li', {}, reason.text, ': ', ranksElement(reason.ranks))))},
      {title: 'Decided', cell: (at) => element('div', {class: 'code tall', tabindex: at.versions[0]?.decisions.length > 200 && '0'}, at.versions[0] ? at.versions[0].decisions : '')}], calls));
}

function showArrival(job) {
  const calls = job.calls.slice(0, 20), parts = [['waited', 'waited_seconds'], ['exchanged', 'exchange_seconds'], ['traced', 'trace_seconds'], ['compiled', 'compile_seconds']];
  const total = (call) => parts.reduce((sum, [, key]) => sum + call[key], 0), most = Math.max(1e-6, ...calls.map(total));
  const bar = (call) => {
    const made = element('div', {class: 'bar', role: 'img', 'aria-label': parts.map(([name, key]) => `${name} ${secondsText(call[key])}`).join(', ')});
    for (const [name, key] of parts) {
      const part = element('i', {class: name});
      part.style.width = `${100 * call[key] / most}%`;
      made.append(part);
    }
    return made;
  };
  show(byId('arrival').querySelector('div'), [still(calls), job.least_waiting], () => [
    job.least_waiting.length === 0 ? none('Nobody has waited yet.') : table('Who waits least arrives last: the others wait for these ranks', [
      {title: 'Rank', number: true, cell: (at) => `${at.rank}`},
      {title: 'Waits', number: true, cell: (at) => `${Math.round(100 * at.share)} % of its time`},
      {title: 'Seen behind', cell: (at) => `in ${at.behind} of ${at.reports} reports`}], job.least_waiting),
    calls.length === 0 ? '' : table('Where the time of these calls went: waited (most of any rank), exchanged, traced, compiled (the slowest rank)', [
      {title: 'Call', cell: (at) => `${at.frame}, ${callName(at)}`},
      {title: 'Time', cell: bar},
      {title: 'Waited', number: true, cell: (at) => secondsText(at.waited_seconds)},
      {title: 'Slowest to compile', cell: (at) => at.outcome === 'compiled' ? `rank ${at.compile_slowest}: ${secondsText(at.compile_seconds)}` : ''},
      {title: 'First to last word', number: true, cell: (at) => secondsText(at.spread_seconds)}], calls)]);
}

function showConfiguration(status, job) {
  const facts = [['build', job.build], ['run', `${job.run}`], ['coordinator', status.coordinator.version],
    ['listening at', status.coordinator.listening], ['process', `${status.coordinator.pid}`],
    ...job.configuration.map(({name, value}) => [name, value])];
  show(byId('configuration').querySelector('div'), facts, () => table('What the job and its coordinator run with', [
    {title: 'Name', name: true, cell: ([name]) => name}, {title: 'Value', cell: ([, value]) => value}], facts));
}

function showGraphs(job, chosen) {
  show(byId('graph-groups'), job.graphs, () => job.graphs.length === 0
    ? none('No graph has been told of.')
    : table('Graphs by fingerprint, the latest call that ran each first', [
      {title: 'Graph', name: true, cell: (at) => element('span', {class: 'code'}, at.graph.slice(0, 16))},
      {title: 'Frame', cell: (at) => at.frame},
      {title: 'Call', number: true, cell: (at) => `${at.call}`},
      {title: 'Ranks', cell: (at) => ranksElement(at.ranks)},
      {title: 'Text', name: true, cell: (at) => at.known ? 'known' : 'not known'}], job.graphs));
  const known = job.graphs.filter((graph) => graph.known);
  byId('compare').hidden = known.length === 0;
  for (const side of ['left', 'right']) {
    const choice = byId(side);
    const before = choice.value;
    show(choice, known, () => known.map((graph) => element('option', {value: graph.graph}, `${graph.graph.slice(0, 8)} · ${graph.frame} call ${graph.call} · ${countOf(graph.ranks)} ranks`)));
    const first = side === 'left' ? known[Math.min(1, known.length - 1)] : known[0];
    if (known.some((graph) => graph.graph === before)) choice.value = before;
    else if (first) choice.value = first.graph;
  }
}
