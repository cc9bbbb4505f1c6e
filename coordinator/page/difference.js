// Two texts side by side, line by line. Equal lines at both ends are matched first; the rest is
// aligned by its longest common subsequence of lines, found by dynamic programming.

const kMostCells = 9e6;

/** Pairs [left, right] of lines. A line without a counterpart is paired with undefined. */
function differenceOf(left, right) {
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) ++head;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head &&
         left[left.length - 1 - tail] === right[right.length - 1 - tail]) ++tail;
  const a = left.slice(head, left.length - tail), b = right.slice(head, right.length - tail);
  const pairs = left.slice(0, head).map((line) => [line, line]);
  pairs.push(...(a.length * b.length > kMostCells ? beside(a, b) : aligned(a, b)));
  for (let i = left.length - tail; i < left.length; ++i) pairs.push([left[i], left[i]]);
  return pairs;
}

/** Pairs lines by position: for runs of lines that differ, and for texts too long to align. */
function beside(a, b) {
  return Array.from({length: Math.max(a.length, b.length)}, (_, i) => [a[i], b[i]]);
}

function aligned(a, b) {
  const wide = b.length + 1, common = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; --i)
    for (let j = b.length - 1; j >= 0; --j)
      common[i * wide + j] = a[i] === b[j] ? common[(i + 1) * wide + j + 1] + 1
        : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
  const pairs = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      pairs.push([a[i++], b[j++]]);
      continue;
    }
    // A run of lines that differ: removed lines beside added lines.
    const gone = [], come = [];
    while ((i < a.length || j < b.length) && !(i < a.length && j < b.length && a[i] === b[j])) {
      if (j >= b.length || (i < a.length && common[(i + 1) * wide + j] >= common[i * wide + j + 1])) gone.push(a[i++]);
      else come.push(b[j++]);
    }
    pairs.push(...beside(gone, come));
  }
  return pairs;
}

/** An element with the pairs; shows equal lines only near a difference. */
function differenceElement(leftText, rightText) {
  const pairs = differenceOf(leftText.trimEnd().split('\n'), rightText.trimEnd().split('\n'));
  const near = pairs.map(() => false);
  pairs.forEach(([left, right], at) => {
    if (left !== right) near.fill(true, Math.max(0, at - 3), Math.min(pairs.length, at + 4));
  });
  const box = element('div', {class: 'lines scroll', tabindex: '0', role: 'region', 'aria-label': 'Difference of two graphs'});
  let hidden = 0;
  const gap = () => { if (hidden > 0) box.append(element('div', {class: 'gap'}, `${hidden} equal lines`)); hidden = 0; };
  pairs.forEach(([left, right], at) => {
    if (!near[at]) return void ++hidden;
    gap();
    const same = left === right;
    box.append(element('div', {class: same ? 'pair same' : 'pair'},
      element('span', {class: same || left === undefined ? '' : 'gone'}, left === undefined ? '' : (same ? '  ' : '− ') + left),
      element('span', {class: same || right === undefined ? '' : 'new'}, right === undefined ? '' : (same ? '  ' : '+ ') + right)));
  });
  gap();
  return box;
}
