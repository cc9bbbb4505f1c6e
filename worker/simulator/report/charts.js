// Plots as SVG, drawn from data. Each has a table beside it with the same data.

function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const label = (x, y, text, anchor = 'start') => drawing('text', {x, y, 'text-anchor': anchor}, text);
const titled = (shape, text) => { shape.append(drawing('title', {}, text)); return shape; };

/** Plots are as wide as the screen allows, so that their text stays legible. */
const narrow = () => window.matchMedia('(max-width: 640px)').matches;
const plotWidth = () => narrow() ? 360 : 900;

/** `says` describes the plot in words. */
function plot(says, width, height, shapes, keys = []) {
  const legend = element('div', {class: 'keys'}, ...keys.map(([kind, text]) => element('span', {}, element('i', {class: `key ${kind}`}), text)));
  return element('figure', {}, element('figcaption', {}, says), keys.length ? legend : '',
    element('div', {class: 'plot', tabindex: '0', role: 'group', 'aria-label': says}, drawing('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': says}, ...shapes)));
}

/** Text such as "12 k" or "3.4 M". */
function shortNumber(n) {
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]])
    if (Math.abs(n) >= size) return `${+(n / (unit === 'k' ? 1e3 : size)).toPrecision(3)} ${unit}`;
  return `${+n.toPrecision(4)}`;
}

const kOutcomeWords = {reused: 'reused', compiled: 'compiled', fallback: 'fell back', error: 'error'};

/** A stacked bar for each bin of consecutive calls. */
function outcomesPlot({calls_each: each, kinds, bins}, calls) {
  const width = plotWidth(), height = 110, left = 8, top = 6, floor = height - 24, step = (width - 2 * left) / Math.max(bins.length, 1);
  const shapes = [drawing('line', {class: 'axis', x1: left, x2: width - left, y1: floor, y2: floor})];
  bins.forEach((bin, i) => {
    const all = bin.reduce((sum, n) => sum + n, 0);
    let y = floor;
    // Rare outcomes must be visible: each has at least four pixels, taken from common ones.
    const parts = kinds.map((kind, k) => [kind, bin[k]]).filter(([, n]) => n > 0);
    const least = 4, room = floor - top - least * parts.length;
    for (const [kind, n] of parts) {
      const tall = least + room * n / all;
      y -= tall;
      shapes.push(titled(drawing('rect', {class: kind, x: (left + i * step).toFixed(2), y: y.toFixed(2), width: Math.max(step - (step > 4 ? 1 : 0), 0.6).toFixed(2), height: tall.toFixed(2)}),
        `call ${i * each}${each > 1 ? ` to ${Math.min((i + 1) * each, calls) - 1}` : ''}: ${parts.map(([k, m]) => `${m} ${kOutcomeWords[k]}`).join(', ')}`));
    }
  });
  shapes.push(label(left, height - 6, 'call 0'), label(width - left, height - 6, `call ${Math.max(calls - 1, 0)}`, 'end'));
  const found = kinds.filter((kind, k) => bins.some((bin) => bin[k] > 0));
  return plot(each > 1 ? `What calls came to, ${each} calls a bar` : 'What each call came to', width, height, shapes, found.map((kind) => [kind, kOutcomeWords[kind]]));
}

/** One bar per dim from its least to its greatest value, on a logarithmic axis. */
function reachPlot(dims) {
  const width = plotWidth(), row = 20, left = narrow() ? 130 : 260, right = narrow() ? 84 : 100, ticks = narrow() ? 3 : 8, letters = narrow() ? 17 : 34, height = dims.length * row + 26;
  const scale = (v) => Math.log2(Math.max(v, 0) + 1), most = Math.max(1, ...dims.map((dim) => scale(dim.greatest)));
  const x = (v) => left + (width - left - right) * scale(v) / most;
  const shapes = [];
  for (let tick = 0; tick <= most; tick += Math.max(1, Math.ceil(most / ticks))) {
    const at = left + (width - left - right) * tick / most;
    shapes.push(drawing('line', {class: 'axis', x1: at, x2: at, y1: 0, y2: height - 20}), label(at, height - 6, shortNumber(tick === 0 ? 0 : 2 ** tick), 'middle'));
  }
  const several = new Set(dims.map((dim) => dim.frame)).size > 1;
  dims.forEach((dim, i) => {
    const whole = several ? `${dim.frame}: ${dim.name}` : dim.name;
    const y = i * row, name = whole.length > letters ? `…${whole.slice(1 - letters)}` : whole;
    shapes.push(titled(label(left - 8, y + 14, name, 'end'), `${dim.frame}: ${dim.name}`),
      titled(drawing('rect', {class: `reach${dim.dynamic ? ' dynamic' : ''}`, x: x(dim.least), y: y + 4, height: row - 8, width: Math.max(3, x(dim.greatest) - x(dim.least))}), rangeText(dim)),
      label(x(dim.greatest) + 6, y + 14, distinctText(dim)));
  });
  return plot('From the least to the greatest value and how many there are, those with most first (logarithmic)', width, height, shapes, [['dynamic', 'dynamic in the last entry'], ['reused', 'a constant in it']]);
}

/** A line of of(row) over xOf(row). The axis of x is logarithmic if x spans more than a factor of 20. */
function linePlot(says, rows, xOf, xName, {name, of}) {
  const width = narrow() ? 360 : 440, height = 190, left = 58, floor = height - 34, right = 16, top = 16;
  const xs = rows.map(xOf), ys = rows.map(of), logarithmic = Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) > 20;
  const scale = (v) => logarithmic ? Math.log2(v) : v, low = scale(Math.min(...xs)), high = scale(Math.max(...xs));
  const most = Math.max(1, ...ys), x = (v) => left + (width - left - right) * (high > low ? (scale(v) - low) / (high - low) : 0.5), y = (v) => floor - (floor - top) * v / most;
  const shapes = [0, 0.5, 1].flatMap((part) => [drawing('line', {class: 'axis', x1: left, x2: width - right, y1: y(most * part), y2: y(most * part)}), label(left - 6, y(most * part) + 4, shortNumber(most * part), 'end')]);
  shapes.push(drawing('polyline', {class: 'line', points: rows.map((row, i) => `${x(xs[i]).toFixed(1)},${y(ys[i]).toFixed(1)}`).join(' ')}));
  rows.forEach((row, i) => shapes.push(titled(drawing('circle', {class: 'dot', cx: x(xs[i]), cy: y(ys[i]), r: 4}), `${xName} ${xs[i]}: ${ys[i]} ${name}`)));
  shapes.push(label(x(Math.min(...xs)), height - 14, shortNumber(Math.min(...xs)), 'middle'), label(x(Math.max(...xs)), height - 14, shortNumber(Math.max(...xs)), 'end'), label((left + width - right) / 2, height - 2, xName, 'middle'));
  return plot(says, width, height, shapes);
}

/** Range of the waits in each bin of consecutive ranks, with the middle wait. */
function waitsPlot({ranks_each: each, bins}, ranks) {
  const width = plotWidth(), height = 150, left = 70, top = 8, floor = height - 24, step = (width - left - 8) / bins.length;
  const most = Math.max(1, ...bins.map(([, , high]) => high)), y = (ns) => floor - (floor - top) * ns / most;
  const shapes = [0, 0.5, 1].flatMap((part) => [drawing('line', {class: 'axis', x1: left, x2: width - 8, y1: y(most * part), y2: y(most * part)}), label(left - 6, y(most * part) + 4, secondsText(most * part / 1e9), 'end')]);
  bins.forEach(([low, middle, high], i) => {
    const x = left + i * step, wide = Math.max(step - (step > 4 ? 1 : 0), 0.6), text = `ranks ${i * each} to ${Math.min((i + 1) * each, ranks) - 1}: ${secondsText(low / 1e9)} to ${secondsText(high / 1e9)}, the middle one ${secondsText(middle / 1e9)}`;
    shapes.push(titled(drawing('rect', {class: 'wait', x: x.toFixed(2), width: wide.toFixed(2), y: y(high).toFixed(2), height: Math.max(2, y(low) - y(high)).toFixed(2)}), text),
      drawing('line', {class: 'middle', x1: x.toFixed(2), x2: (x + wide).toFixed(2), y1: y(middle).toFixed(2), y2: y(middle).toFixed(2)}));
  });
  shapes.push(label(left, height - 6, 'rank 0'), label(width - 8, height - 6, `rank ${ranks - 1}`, 'end'));
  return plot('How long ranks wait for others over the run: least to greatest, the middle one as a line', width, height, shapes);
}
