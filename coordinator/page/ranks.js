'use strict';
// Sets of ranks as text: "0-2,7".

/** Calls `visit(first, last)` for every run of the set. */
function eachRun(text, visit) {
  if (!text) return;
  for (const run of text.split(',')) {
    const dash = run.indexOf('-');
    const first = Number(dash < 0 ? run : run.slice(0, dash));
    visit(first, dash < 0 ? first : Number(run.slice(dash + 1)));
  }
}

function countOf(text) {
  let count = 0;
  eachRun(text, (first, last) => { count += last - first + 1; });
  return count;
}

/** "ranks 0-2, 7 (4)", with the whole list. */
function ranksText(text) {
  const count = countOf(text);
  if (count === 0) return 'none';
  return count === 1 ? `rank ${text}` : `ranks ${text.replaceAll(',', ', ')} (${count})`;
}

/** The set of ranks for which `test` is true, as text. */
function ranksWhere(size, test) {
  const runs = [];
  for (let rank = 0; rank < size; ++rank) {
    if (!test(rank)) continue;
    const first = rank;
    while (rank + 1 < size && test(rank + 1)) ++rank;
    runs.push(first === rank ? `${first}` : `${first}-${rank}`);
  }
  return runs.join(',');
}

const kStates = ['lost', 'stuck', 'awaited', 'absent', 'starting', 'tracing', 'compiling', 'running', 'waiting', 'finished'];
const kStateWords = {
  lost: 'lost', stuck: 'stuck or silent', awaited: 'others wait for it', absent: 'has not come',
  starting: 'starting', tracing: 'tracing', compiling: 'compiling', running: 'running',
  waiting: 'waiting for others', finished: 'finished',
};

function stateOf(doing) {
  if (doing.link === 'absent') return 'absent';
  if (doing.link === 'finished') return 'finished';
  if (doing.link === 'closed') return 'lost';
  if (doing.waiting) return 'waiting';
  if (doing.phase === 'starting') return 'starting';
  if (doing.phase === 'tracing') return 'tracing';
  if (doing.phase === 'compiling' || doing.phase === 'loading') return 'compiling';
  return doing.phase === 'finishing' ? 'finished' : 'running';
}

/** For each rank of a job: the indices of its state in kStates, of its entry in job.doing, and of its host in
 *  job.hosts (-1: none). */
function rankTable(job) {
  const table = {
    size: job.size, state: new Uint8Array(job.size).fill(kStates.indexOf('absent')),
    doing: new Int32Array(job.size).fill(-1), host: new Int32Array(job.size).fill(-1),
  };
  job.doing.forEach((doing, index) => {
    const state = kStates.indexOf(stateOf(doing));
    eachRun(doing.ranks, (first, last) => {
      table.doing.fill(index, first, last + 1);
      table.state.fill(state, first, last + 1);
    });
  });
  job.hosts.forEach((host, index) => eachRun(host.ranks, (first, last) => table.host.fill(index, first, last + 1)));
  const mark = (ranks, name) => eachRun(ranks, (first, last) => {
    for (let rank = first; rank <= last; ++rank)
      if (!['lost', 'absent', 'finished', 'stuck'].includes(kStates[table.state[rank]]))
        table.state[rank] = kStates.indexOf(name);
  });
  for (const finding of job.findings)
    if (['stuck', 'silent', 'ring', 'hung'].includes(finding.kind)) mark(finding.ranks, 'stuck');
  for (const operation of job.operations) {
    // A rank that waits elsewhere is not the cause of the others' wait.
    eachRun(operation.not_in, (first, last) => {
      for (let rank = first; rank <= last; ++rank)
        if (kStates[table.state[rank]] === 'running' || kStates[table.state[rank]] === 'starting')
          table.state[rank] = kStates.indexOf('awaited');
    });
  }
  return table;
}
