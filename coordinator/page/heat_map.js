// The map of ranks: one cell per rank, one block per host. Drawn on a canvas, because thousands of
// elements would be slow; keys and pointer choose a rank, and the readout shows what it does.

class HeatMap {
  constructor(canvas, readout) {
    Object.assign(this, {canvas, readout, blocks: [], chosen: -1, hovered: -1, job: null, ranks: null});
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('pointermove', (event) => this.hover(this.at(event)));
    canvas.addEventListener('pointerleave', () => this.hover(-1));
    canvas.addEventListener('click', (event) => this.choose(this.at(event)));
    canvas.addEventListener('focus', () => { if (this.chosen < 0) this.choose(this.first()); });
    new ResizeObserver(() => this.layout()).observe(canvas.parentElement);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  /** The rank that matters most: the first lost, else stuck, else awaited rank. */
  first() {
    for (const state of ['lost', 'stuck', 'awaited']) {
      const rank = this.ranks.state.indexOf(kStates.indexOf(state));
      if (rank >= 0) return rank;
    }
    return this.order ? this.order[0] : 0;
  }

  show(job, ranks) {
    const moved = !this.job || this.job.job !== job.job || this.job.size !== job.size ||
      JSON.stringify(this.job.hosts) !== JSON.stringify(job.hosts);
    if (moved && this.job && this.job.job !== job.job) this.chosen = -1;
    Object.assign(this, {job, ranks});
    if (moved) this.layout();
    else this.draw();
    this.say();
  }

  /** Hosts with their ranks; ranks whose host is not known come last. */
  hosts() {
    const hosts = this.job.hosts.map((host) => ({name: host.host, ranks: []}));
    const unknown = {name: 'not come', ranks: []};
    for (let rank = 0; rank < this.ranks.size; ++rank)
      (this.ranks.host[rank] < 0 ? unknown : hosts[this.ranks.host[rank]]).ranks.push(rank);
    if (unknown.ranks.length > 0) hosts.push(unknown);
    return hosts;
  }

  layout() {
    if (!this.job) return;
    const width = Math.max(200, this.canvas.parentElement.clientWidth);
    const size = this.ranks.size;
    const cell = size <= 64 ? 26 : size <= 512 ? 16 : size <= 4096 ? 10 : 7;
    const hosts = this.hosts();
    const most = Math.max(1, ...hosts.map((host) => host.ranks.length));
    const columns = Math.max(1, Math.min(Math.floor(width / cell), most <= 8 ? Math.min(most, 4) : Math.ceil(Math.sqrt(most))));
    const labels = hosts.length <= 128 ? 15 : 0;
    const block = Math.max(columns * cell, labels ? 58 : 0), gap = labels ? 12 : cell;
    const across = Math.max(1, Math.floor((width + gap) / (block + gap)));
    this.cell = cell;
    this.columns = columns;
    this.labels = labels;
    this.order = [];
    this.where = new Int32Array(size).fill(-1);
    let y = 0;
    this.blocks = [];
    for (let first = 0; first < hosts.length; first += across) {
      const row = hosts.slice(first, first + across);
      row.forEach((host, i) => this.blocks.push({...host, x: i * (block + gap), y, start: 0}));
      y += labels + Math.max(...row.map((host) => Math.ceil(host.ranks.length / columns))) * cell + (labels ? 10 : cell);
    }
    for (const host of this.blocks) {
      host.start = this.order.length;
      host.ranks.forEach((rank) => { this.where[rank] = this.order.length; this.order.push(rank); });
    }
    const scale = window.devicePixelRatio || 1;
    Object.assign(this, {width, height: y, scale});
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(y * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${y}px`;
    this.draw();
  }

  place(block, index) {
    return [block.x + (index % this.columns) * this.cell, block.y + this.labels + Math.floor(index / this.columns) * this.cell];
  }

  draw() {
    if (!this.job || !this.width) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = kStates.map(colour), line = colour('soft'), ink = colour('ink'), ground = colour('card');
    const pen = this.canvas.getContext('2d');
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = '11px system-ui, sans-serif';
    const side = this.cell - (this.cell > 8 ? 2 : 1), absent = kStates.indexOf('absent');
    for (const block of this.blocks) {
      if (this.labels) {
        pen.fillStyle = line;
        pen.fillText(this.fitted(pen, block.name, Math.max(this.columns * this.cell, 58)), block.x, block.y + 11);
      }
      block.ranks.forEach((rank, index) => {
        const [x, y] = this.place(block, index), state = this.ranks.state[rank];
        pen.fillStyle = colours[state];
        pen.fillRect(x, y, side, side);
        if (state === absent) {
          pen.strokeStyle = line;
          pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
        }
        if (state <= 1 && side >= 6) this.cross(pen, x, y, side, ground, state === 0);
      });
    }
    for (const [rank, wide] of [[this.hovered, 1], [this.chosen, 2]]) this.frame(pen, rank, side, ink, wide);
  }

  /** Marks bad states by shape, too: lost ranks are crossed out, stuck ranks have a hole. */
  cross(pen, x, y, side, colour, lost) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = Math.max(1, side / 9);
    if (!lost) return pen.fillRect(x + side * 0.35, y + side * 0.35, side * 0.3, side * 0.3);
    pen.beginPath();
    pen.moveTo(x + side * 0.2, y + side * 0.2);
    pen.lineTo(x + side * 0.8, y + side * 0.8);
    pen.moveTo(x + side * 0.8, y + side * 0.2);
    pen.lineTo(x + side * 0.2, y + side * 0.8);
    pen.stroke();
    pen.lineWidth = 1;
  }

  frame(pen, rank, side, ink, wide) {
    if (rank < 0 || rank >= this.ranks.size) return;
    const block = this.blockOf(this.where[rank]);
    const [x, y] = this.place(block, this.where[rank] - block.start);
    pen.strokeStyle = ink;
    pen.lineWidth = wide;
    pen.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
    pen.lineWidth = 1;
  }

  fitted(pen, text, width) {
    if (pen.measureText(text).width <= width) return text;
    let cut = text;
    while (cut.length > 1 && pen.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
    return `${cut}…`;
  }

  blockOf(place) {
    let low = 0, high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.blocks[middle].start <= place) low = middle;
      else high = middle - 1;
    }
    return this.blocks[low];
  }

  at(event) {
    const x = event.offsetX, y = event.offsetY;
    for (const block of this.blocks) {
      const column = Math.floor((x - block.x) / this.cell), row = Math.floor((y - block.y - this.labels) / this.cell);
      const index = row * this.columns + column;
      if (column >= 0 && column < this.columns && row >= 0 && index < block.ranks.length) return block.ranks[index];
    }
    return -1;
  }

  hover(rank) {
    if (rank === this.hovered) return;
    this.hovered = rank;
    this.draw();
    this.say();
  }

  choose(rank) {
    if (!this.ranks || !(rank >= 0 && rank < this.ranks.size)) return;
    this.chosen = rank;
    byId('go-to-rank').value = rank;
    this.draw();
    this.say();
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns}[event.key];
    const here = this.where[Math.max(0, this.chosen)], last = this.order.length - 1;
    let place;
    if (step !== undefined) place = here + step;
    else if (event.key === 'Home') place = 0;
    else if (event.key === 'End') place = last;
    else if (event.key === 'PageDown' || event.key === 'PageUp') {
      const index = this.blocks.indexOf(this.blockOf(here)) + (event.key === 'PageDown' ? 1 : -1);
      place = this.blocks[Math.max(0, Math.min(index, this.blocks.length - 1))].start;
    } else return;
    event.preventDefault();
    this.choose(this.order[Math.max(0, Math.min(place, last))]);
    this.reveal();
  }

  /** Scrolls so that the chosen cell is in sight, below the readout. */
  reveal() {
    const block = this.blockOf(this.where[this.chosen]);
    const y = this.canvas.getBoundingClientRect().top + this.place(block, this.where[this.chosen] - block.start)[1];
    const top = this.readout.offsetHeight + this.cell, bottom = innerHeight - 2 * this.cell;
    if (y < top) scrollBy(0, y - top);
    else if (y > bottom) scrollBy(0, y - bottom);
  }

  text(rank) {
    const state = kStates[this.ranks.state[rank]], doing = this.job.doing[this.ranks.doing[rank]];
    const host = this.ranks.host[rank] < 0 ? '' : ` on ${this.job.hosts[this.ranks.host[rank]].host}`;
    if (!doing || doing.link === 'absent') return `Rank ${rank}: ${kStateWords[state]}`;
    const busy = doing.busy ? ', busy and says so' : '';
    const event = doing.event ? `, last event: ${doing.event}` : '';
    return `Rank ${rank}${host}: ${kStateWords[state]}${busy}; ${doing.phase}, ${operationText(doing)}${event}`;
  }

  say() {
    const rank = this.hovered >= 0 ? this.hovered : this.chosen;
    const text = rank >= 0 && rank < this.ranks.size ? this.text(rank) : 'Choose a rank to read what it does.';
    if (this.readout.textContent !== text) this.readout.textContent = text;
  }
}
