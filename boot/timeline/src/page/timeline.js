// Draws the timeline on a canvas. In each row, the next column of pixels is found by a search from the column before. So
// drawing takes about as long for a million periods as for a thousand.
//
// The canvas is as large as the part of the timeline that is in view. If there are more rows than fit, the element around
// the canvas is scrolled, and the canvas draws other rows.

/** The height of a row. If rows do not fit, they are made lower, but not lower than `LEAST_ROW`, in which names fit. */
const ROW = 44, LEAST_ROW = 12;
const GAP = 4, LEFT = 88, RULER = 26, OVERVIEW = 34, COUNTS = 44, SPAN_ROW = 22;

/** The size of the text on the canvas, in pixels. It is larger on a large screen, which may be that of a projector. */
const FONT = matchMedia('(min-width: 1500px)').matches ? 16 : 13;

class Timeline {
  constructor(canvas, history, onChange) {
    this.canvas = canvas;
    /** The element that is scrolled. */
    this.view = canvas.parentElement.parentElement;
    /** How far the rows are scrolled, in pixels. */
    this.scroll = 0;
    this.context = canvas.getContext('2d');
    this.history = history;
    this.onChange = onChange;
    this.from = 0;
    this.to = Math.max(1, DURATION);
    this.byMachine = false;
    /** The gaps that are drawn short; `null` if all gaps have their real length. */
    this.gaps = null;
    this.chosen = -1;
    this.cursor = -1;
    this.dirty = false;
    this.colors = [];
    this.pixels = new Map();
    this.strip = null;
    /** The period at the pointer, or -1. Its arrows are drawn strongly. */
    this.pointed = -1;
    this.widths = new Map();
    this.functions = this.collectFunctions();
    this.marks = this.collectMarks();
    this.spans = this.collectSpans();
    this.outsideWhen = Float64Array.from(history.outside, (i) => EVENTS.when[i]);
    this.makeRows();
    this.view.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.view.parentElement);
    this.resize();
  }

  /** The number of the function of each G, in the order in which the functions appear. */
  collectFunctions() {
    const numbers = new Map();
    return Int32Array.from(DATA.goroutines, ([, name, function_]) => {
      const key = function_ || name;
      if (!numbers.has(key)) numbers.set(key, numbers.size);
      return numbers.get(key);
    });
  }

  /** The marks of the program, which are shown on the axis: when, and the number of the text. */
  collectMarks() {
    const marks = [];
    for (let i = 0; i < EVENTS.count; i++) if (EVENTS.kind[i] === KIND.Mark) marks.push([EVENTS.when[i], EVENTS.detail[i]]);
    return marks;
  }

  /** The spans of the program, one row for each name. */
  collectSpans() {
    const rows = new Map(), open = new Map();
    for (let i = 0; i < EVENTS.count; i++) {
      const kind = EVENTS.kind[i];
      if (kind !== KIND.SpanBegin && kind !== KIND.SpanEnd) continue;
      const text = EVENTS.detail[i], g = EVENTS.goroutine[i], key = `${g} ${text}`;
      if (!rows.has(text)) rows.set(text, []);
      if (kind === KIND.SpanBegin) open.set(key, [...(open.get(key) ?? []), EVENTS.when[i]]);
      else {
        rows.get(text).push({ from: open.get(key)?.pop() ?? 0, to: EVENTS.when[i], g });
      }
    }
    for (const [key, starts] of open) {
      const [g, text] = key.split(' ').map(Number);
      starts.forEach((from) => rows.get(text).push({ from, to: DURATION, g }));
    }
    return [...rows].map(([text, list]) => {
      list.sort((a, b) => a.from - b.from);
      const from = Float64Array.from(list, (span) => span.from), to = Float64Array.from(list, (span) => span.to);
      // For each span, the latest end of this span and those before it.
      const latest = to.slice();
      for (let index = 1; index < latest.length; index++) latest[index] = Math.max(latest[index], latest[index - 1]);
      return { text, from, to, latest, g: Int32Array.from(list, (span) => span.g) };
    });
  }

  makeRows() {
    const { history } = this;
    const lists = this.byMachine ? history.ofMachine : history.ofProcessor;
    const letter = this.byMachine ? 'M' : 'P';
    const makeRow = (name, list) => {
      const from = Float64Array.from(list, (n) => history.from[n]);
      const to = Float64Array.from(list, (n) => history.to[n]);
      // How long the row was busy until the end of each period.
      const busy = new Float64Array(list.length + 1);
      list.forEach((n, index) => (busy[index + 1] = busy[index] + to[index] - from[index]));
      return { name, list, from, to, busy };
    };
    this.rows = Array.from({ length: lists.length }, (_, number) => makeRow(`${letter}${number}`, lists.of(number)));
    this.overview = null;
    /** The numbers of the row of callers without a P, or -1, and of the row of the first CPU. */
    this.outsideRow = history.outside.length ? this.rows.push(makeRow('no P', [])) - 1 : -1;
    this.firstCpu = this.rows.length;
    for (let cpu = 0; cpu < DATA.cpus; cpu++) this.rows.push(makeRow(`CPU ${cpu}`, history.ofCpu.of(cpu)));
    this.resize();
  }

  resize() {
    const { canvas, view } = this;
    const rows = this.rows?.length ?? 0;
    this.top = OVERVIEW + RULER + COUNTS;
    const others = this.top + this.spans.length * SPAN_ROW + 8;
    const height = Math.max(180, Math.min(others + rows * (ROW + GAP), window.innerHeight * 0.62));
    const share = (room) => room / Math.max(1, rows) - this.gap(rows);
    /** Whether there are more rows than fit. */
    this.isHigher = share(height - others) < LEAST_ROW;
    // If the spans do not fit, the rows above them still get half of the view.
    const fitting = share(this.isHigher ? (height - this.top) / 2 : height - others);
    this.row = Math.max(LEAST_ROW, Math.min(ROW, fitting));
    canvas.parentElement.style.height = `${this.isHigher ? others + rows * (this.row + this.gap(rows)) : height}px`;
    canvas.style.height = view.style.height = `${height}px`;
    // A scroll bar makes the canvas narrower.
    const width = view.clientWidth;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.round(height * scale);
    this.width = width;
    this.height = height;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    // The new size has cleared the canvas, so it is drawn at once.
    this.drawNow();
  }

  gap(rows) {
    return rows > 40 ? 1 : GAP;
  }

  /** Draws before the next frame. */
  draw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.drawNow();
    });
  }

  /** Draws long gaps short, or with their real length again. */
  showGaps(areShort) {
    this.gaps = areShort ? new Gaps(this.history) : null;
    this.draw();
    this.onChange();
  }

  x(when) {
    const { from, to, gaps } = this;
    if (!gaps) return LEFT + ((when - from) / (to - from)) * (this.width - LEFT);
    const first = gaps.place(from), last = gaps.place(to);
    return LEFT + ((gaps.place(when) - first) / (last - first)) * (this.width - LEFT);
  }

  when(x) {
    const { from, to, gaps } = this, share = (x - LEFT) / (this.width - LEFT);
    if (!gaps) return from + share * (to - from);
    const first = gaps.place(from);
    return gaps.when(first + share * (gaps.place(to) - first));
  }

  y(row) {
    return this.top - this.scroll + row * (this.row + this.gap(this.rows.length));
  }

  /** Whether a part of a row at this place is in the view. */
  isInView(y, height) {
    return y + height > this.top && y < this.height;
  }

  /** The pointer is at the period `n`, or at none if it is -1. */
  point(n) {
    if (n === this.pointed) return;
    this.pointed = n;
    this.draw();
  }

  /** Scrolls to the row of the period `n`, if it is not in the view. */
  revealRow(n) {
    const row = this.rowOf(n);
    if (row < 0) return;
    this.scroll = this.view.scrollTop;
    const above = this.y(row) - GAP - this.top, below = this.y(row) + this.row + GAP - this.height;
    if (above < 0 || below > 0) this.view.scrollBy(0, above < 0 ? above : below);
  }

  rowOf(n) {
    const track = this.history.processor[n];
    if (isCpu(track)) return this.firstCpu + track - CPUS;
    return this.byMachine ? this.history.machine[n] : track;
  }

  /** The row on which an arrow begins. With Ms as rows, this is the M that held the P at that time. */
  rowOfTrack(track, when) {
    if (track === NO_P) return this.outsideRow;
    if (isCpu(track)) return this.firstCpu + track - CPUS;
    return this.byMachine ? this.machineAt(track, when) : track;
  }

  color(g, isDim) {
    const index = 4 * g + 2 * isDim + this.isDark;
    return (this.colors[index] ??= this.newColor(g, isDim));
  }

  /** The color of a G is that of its function. Gs of the same function differ a little in lightness. */
  newColor(g, isDim) {
    const [hue, saturation, lightness] = DATA.palette[this.functions[g] % DATA.palette.length];
    if (isDim) return `hsl(${hue} 10% ${this.isDark ? 30 : 80}%)`;
    return `hsl(${hue} ${saturation}% ${lightness - 3 * (DATA.goroutines[g][0] % 3)}%)`;
  }

  /** A color as it is in the memory of a picture: red, green, blue and opacity, from the lowest byte on. */
  pixelOf(color) {
    const known = this.pixels.get(color);
    if (known !== undefined) return known;
    // The canvas returns a color in hexadecimal digits.
    this.context.fillStyle = color;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(this.context.fillStyle.slice(at, at + 2), 16));
    const pixel = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    this.pixels.set(color, pixel);
    return pixel;
  }

  /**
   * An empty picture of a row, in which short periods are drawn pixel by pixel. With thousands of them, this is several
   * times as fast as drawing as many rectangles.
   */
  emptyStrip() {
    const width = Math.ceil(this.width - LEFT), height = Math.max(1, Math.round(this.row));
    if (this.strip?.width !== width || this.strip.height !== height) {
      const canvas = Object.assign(document.createElement('canvas'), { width, height });
      const context = canvas.getContext('2d', { willReadFrequently: true }), image = context.createImageData(width, height);
      this.strip = { width, height, canvas, context, image, pixels: new Uint32Array(image.data.buffer) };
    }
    this.strip.pixels.fill(0);
    return this.strip;
  }

  drawStrip({ canvas, context, image, width }, y) {
    context.putImageData(image, 0, 0);
    this.context.drawImage(canvas, LEFT, y, width, this.row);
  }

  style(name) {
    return this.styles[name] ?? (this.styles[name] = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }

  drawNow() {
    const { context: c } = this;
    this.styles = {};
    this.scroll = this.view.scrollTop;
    this.isDark = document.documentElement.dataset.theme === 'dark';
    c.clearRect(0, 0, this.width, this.height);
    c.font = `${FONT}px system-ui, "DejaVu Sans", sans-serif`;
    c.textBaseline = 'middle';
    this.drawOverview();
    this.drawRuler();
    this.drawMarks();
    this.drawCounts();
    c.save();
    if (this.scroll > 0) {
      c.beginPath();
      c.rect(0, this.top, this.width, this.height);
      c.clip();
    }
    this.drawRows();
    c.restore();
    this.drawCursor();
    this.drawViolation();
  }

  drawRows() {
    this.rows.forEach((row, number) => this.drawRow(row, number));
    this.history.interrupts.forEach((list, cpu) => this.drawInterrupts(list, this.firstCpu + cpu));
    this.drawOutside();
    this.drawSpans();
    this.drawStops();
    this.drawGaps();
    if (this.chosen >= 0) this.drawPath();
    this.drawArrows();
  }

  /** Draws the overview of the whole trace: how many Ps are busy, and which part of the trace is shown below. */
  drawOverview() {
    const { context: c, width } = this;
    c.fillStyle = this.style('--idle');
    c.fillRect(LEFT, 2, width - LEFT, OVERVIEW - 6);
    c.fillStyle = this.style('--accent');
    const span = Math.max(1, DURATION);
    if (this.overview?.width !== width) this.overview = { width, shares: this.busyShares(span, width) };
    this.overview.shares.forEach((share, column) => {
      const height = share * (OVERVIEW - 6);
      c.fillRect(LEFT + 2 * column, OVERVIEW - 4 - height, 2, height);
    });
    const left = LEFT + (this.from / span) * (width - LEFT), right = LEFT + (this.to / span) * (width - LEFT);
    c.strokeStyle = this.style('--front');
    c.lineWidth = 1.5;
    c.strokeRect(left, 1.5, Math.max(3, right - left), OVERVIEW - 5);
  }

  /** The share of the Ps or Ms that were busy, for every two columns of pixels of the overview. */
  busyShares(span, width) {
    const rows = this.rows.slice(0, this.outsideRow >= 0 ? this.outsideRow : this.firstCpu);
    const shares = new Float32Array(Math.ceil((width - LEFT) / 2)), step = (2 * span) / (width - LEFT);
    for (const row of rows) {
      let ended = 0, busy = 0;
      shares.forEach((_, column) => {
        const when = (column + 1) * step;
        ended = countOnwards(row.to, when, ended);
        shares[column] += (this.busyUntil(row, when, ended) - busy) / step / rows.length;
        busy = this.busyUntil(row, when, ended);
      });
    }
    return shares;
  }

  /** How long a row was busy until the time `when`. Of its periods, `ended` have ended by then. */
  busyUntil(row, when, ended) {
    const begun = ended < row.list.length && row.from[ended] < when ? when - row.from[ended] : 0;
    return row.busy[ended] + begun;
  }

  drawRuler() {
    const { context: c } = this;
    const span = this.to - this.from;
    const rough = (span / Math.max(1, this.width - LEFT)) * 130;
    const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? power * 10;
    c.fillStyle = this.style('--dim');
    c.strokeStyle = this.style('--line');
    c.lineWidth = 1;
    let last = -Infinity;
    for (let when = Math.ceil(this.from / step) * step; when <= this.to; when += step) {
      const x = Math.round(this.x(when)) + 0.5;
      if (x < last + 100 && this.gaps) continue;
      last = x;
      c.beginPath();
      c.moveTo(x, OVERVIEW);
      c.lineTo(x, this.height);
      c.stroke();
      c.fillText(duration(when), x + 4, OVERVIEW + RULER / 2);
    }
  }

  /** Draws a flag on the axis for each mark of the program, with its text if there is room until the next mark. */
  drawMarks() {
    const { context: c } = this;
    let end = LEFT;
    this.marks.forEach(([when, text], index) => {
      const x = Math.round(this.x(when));
      if (when < this.from || when > this.to || x < end) return;
      const next = this.marks[index + 1], room = Math.min(this.width, next ? this.x(next[0]) : this.width) - x - 8;
      const words = this.fitting(DATA.texts[text], room);
      c.fillStyle = this.style('--accent');
      c.fillRect(x, OVERVIEW, 2, this.height - OVERVIEW);
      if (words) {
        c.fillRect(x, OVERVIEW + 3, this.widthOf(words) + 8, RULER - 6);
        c.fillStyle = this.style('--back');
        c.fillText(words, x + 4, OVERVIEW + RULER / 2);
      }
      end = x + (words ? this.widthOf(words) + 10 : 3);
    });
  }

  /** Draws the number of runnable Gs over time. */
  drawCounts() {
    const { context: c, width } = this;
    const { when } = EVENTS, { runnable } = this.history;
    const top = OVERVIEW + RULER, height = COUNTS - 6;
    c.fillStyle = this.style('--dim');
    c.textAlign = 'right';
    c.fillText('runnable', LEFT - 6, top + height / 2 - 9);
    let index = Math.max(0, countUpTo(when, this.from) - 1);
    let most = 1;
    const columns = new Float64Array(width - LEFT + 1);
    // A column of pixels without an event shows the number after the last event before it.
    let current = index < EVENTS.count ? runnable.get(index) : 0;
    for (let column = 0; column <= width - LEFT; column++) {
      const next = countOnwards(when, this.when(LEFT + column + 1), index);
      columns[column] = Math.max(current, runnable.most(index, next));
      if (next > index) current = runnable.get(next - 1);
      index = next;
      most = Math.max(most, columns[column]);
    }
    c.fillText(`≤ ${most}`, LEFT - 6, top + height / 2 + 9);
    c.textAlign = 'left';
    c.fillStyle = this.style('--search');
    for (let column = 0; column < columns.length; column++) {
      const bar = (columns[column] / most) * height;
      c.fillRect(LEFT + column, top + height - bar, 1, bar);
    }
  }

  drawRow(row, number) {
    const { context: c } = this;
    const y = this.y(number), height = this.row;
    if (!this.isInView(y, height)) return;
    c.fillStyle = this.style('--front');
    c.textAlign = 'right';
    c.fillText(row.name, LEFT - 6, y + height / 2);
    c.textAlign = 'left';
    c.fillStyle = this.style('--idle');
    c.fillRect(LEFT, y, this.width - LEFT, height);
    let index = countUpTo(row.to, this.from), before = index, strip = null;
    while (index < row.list.length && row.from[index] <= this.to) {
      const n = row.list[index];
      const from = Math.max(row.from[index], this.from), to = Math.min(row.to[index], this.to);
      const left = this.x(from), right = this.x(to);
      if (right - left >= 1) {
        this.drawSlice(n, left, right, y, height);
        index++;
        continue;
      }
      // The period is shorter than a pixel. The height of this column shows for how long the row was busy, and its color
      // is that of the G in the middle.
      const column = Math.floor(left);
      const begin = this.when(column), end = this.when(column + 1);
      before = countOnwards(row.to, begin, Math.min(before, index));
      const after = countOnwards(row.to, end, before);
      const share = Math.min(1, (this.busyUntil(row, end, after) - this.busyUntil(row, begin, before)) / (end - begin));
      const pixel = this.pixelOf(this.fill(row.list[Math.min(row.list.length - 1, Math.max(index, (index + after) >> 1))]));
      strip ??= this.emptyStrip();
      const bar = Math.round(Math.max(share * strip.height, Math.min(4, strip.height)));
      for (let line = strip.height - bar; line < strip.height; line++) strip.pixels[line * strip.width + column - LEFT] = pixel;
      index = Math.max(index + 1, after);
    }
    if (strip) this.drawStrip(strip, y);
  }

  fill(n) {
    const { activity, goroutine } = this.history;
    if (activity[n] === SEARCH) return this.style('--search');
    if (activity[n] === STOPPED) return this.style('--stopped');
    if (activity[n] === THREAD) return this.threadColor(this.history.machine[n]);
    return this.color(goroutine[n], this.chosen >= 0 && goroutine[n] !== this.chosen);
  }

  drawSlice(n, left, right, y, height) {
    const { context: c, history } = this;
    const activity = history.activity[n];
    c.fillStyle = this.fill(n);
    const isThin = activity === SEARCH || activity === STOPPED;
    const inset = isThin ? height * 0.3 : 0;
    c.fillRect(left, y + inset, Math.max(1, right - left - 0.5), height - 2 * inset);
    if (activity === SYSCALL || activity === BLOCKED) {
      c.fillStyle = this.style('--blocked');
      c.fillRect(left, y + height * 0.72, Math.max(1, right - left - 0.5), height * 0.28);
    }
    const begin = Math.max(left, LEFT) + 4;
    if (isThin || right - begin < 22) return;
    const text = this.fitting(activity === THREAD ? nameOfThread(history.machine[n]) : label(history.goroutine[n]), right - begin - 3);
    if (!text) return;
    const isDim = this.chosen >= 0 && history.goroutine[n] !== this.chosen && activity !== THREAD;
    c.fillStyle = isDim ? this.style('--front') : '#fff';
    // Interrupts are drawn over the upper part of a CPU's row.
    const isBelow = activity === THREAD && height > 2 * FONT;
    c.fillText(text, begin, y + height * (isBelow ? 0.72 : 0.5));
  }

  /** The text if it fits into this width. Otherwise its first word or a beginning with an ellipsis; empty if nothing fits. */
  fitting(text, width) {
    if (this.widthOf(text) <= width) return text;
    const [first] = text.split(' ');
    const shortest = first.length < text.length ? first : '';
    let length = Math.min(text.length - 1, Math.floor((text.length * width) / this.widthOf(text)));
    while (length > first.length && this.widthOf(`${text.slice(0, length)}…`) > width) length--;
    if (length > first.length + 1) return `${text.slice(0, length)}…`;
    return shortest && this.widthOf(shortest) <= width ? shortest : '';
  }

  widthOf(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      // There are few names, but `fitting` may try many beginnings of them.
      if (this.widths.size > 20000) this.widths.clear();
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  /** The color of a thread on a CPU. It is a shade of grey, one of three for an M, because only Gs have other colors. */
  threadColor(machine) {
    if (machine === OTHER_THREAD) return this.style('--wait');
    return `hsl(220 7% ${(this.isDark ? 30 : 44) + 5 * (machine % 3)}%)`;
  }

  /** Shows this period of time, or the part of it that is within the trace. */
  show(from, to) {
    const span = Math.min(Math.max(to - from, 20), Math.max(20, DURATION));
    this.from = Math.max(0, Math.min(from, DURATION - span));
    this.to = this.from + span;
    this.draw();
    this.onChange();
  }

  zoom(factor, x = LEFT + (this.width - LEFT) / 2) {
    const when = this.when(x);
    this.show(when - (when - this.from) * factor, when + (this.to - when) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    const from = Math.max(0, Math.min(this.from + by, DURATION - (this.to - this.from)));
    this.show(from, from + (this.to - this.from));
  }

  /** Moves the view if `when` is not visible. */
  reveal(when) {
    const span = this.to - this.from;
    if (when < this.from || when > this.to) this.show(when - span / 2, when + span / 2);
    else this.draw();
  }

  /** The number of the row at this height of the canvas; -1 in the part above the rows, over which rows are not drawn. */
  rowAt(y) {
    if (y < this.top) return -1;
    return Math.floor((y + this.scroll - this.top) / (this.row + this.gap(this.rows.length)));
  }

  /** The length of time that two pixels at `x` represent. */
  tolerance(x = LEFT) {
    return this.when(x + 2) - this.when(x);
  }

  /** Describes what is at a point of the canvas; empty if nothing is there. */
  hintAt(x, y) {
    const number = this.rowAt(y), cpu = number - this.firstCpu, when = this.when(x), tolerance = this.tolerance(x);
    if (x < LEFT) return '';
    if (cpu >= 0 && cpu < DATA.cpus && y < this.y(number) + this.row * 0.45) {
      const { from, to, name } = this.history.interrupts[cpu];
      const index = countUpTo(to, when - tolerance);
      if (index < from.length && from[index] <= when + tolerance) {
        return `interrupt: ${DATA.texts[name[index]]}\non CPU ${cpu} at ${duration(from[index])}, for ${duration(to[index] - from[index])}`;
      }
    }
    if (number === this.outsideRow) {
      const first = countUpTo(this.outsideWhen, when - 2 * tolerance), last = countUpTo(this.outsideWhen, when + 2 * tolerance);
      return [...this.history.outside.slice(first, Math.min(last, first + 8))].map((i) => `${duration(EVENTS.when[i])}, ${describe(i)}`).join('\n');
    }
    const n = this.sliceAt(x, y);
    return n < 0 ? '' : describeSlice(this.history, n);
  }

  /** The period at a point of the canvas, or -1. */
  sliceAt(x, y) {
    const row = this.rows[this.rowAt(y)];
    if (!row || x < LEFT) return -1;
    const tolerance = this.tolerance(x);
    const when = this.when(x);
    const index = countUpTo(row.to, when);
    if (index < row.list.length && row.from[index] <= when) return row.list[index];
    if (index < row.list.length && row.from[index] <= when + tolerance) return row.list[index];
    if (index > 0 && row.to[index - 1] >= when - tolerance) return row.list[index - 1];
    return -1;
  }
}
