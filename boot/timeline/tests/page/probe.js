// What the tests read from the page, as values for JSON. All tests evaluate this script after they have opened a page.

const probe = {
  /** The periods of Ps that are shown: P, M, activity, G, begin, end. */
  slices() {
    const names = { [RUN]: 'run', [SYSCALL]: 'syscall', [SEARCH]: 'search', [STOPPED]: 'stopped' };
    const h = history_, list = [];
    for (let n = 0; n < h.count; n++) {
      const name = names[h.activity[n]];
      if (h.processor[n] < CPUS && name) list.push([h.processor[n], h.machine[n], name, h.goroutine[n], h.from[n], h.to[n]]);
    }
    return list;
  },

  /** The periods in which an M is blocked: M, G, begin, end. */
  blocked() {
    const h = history_, all = [...Array(h.count).keys()].filter((n) => h.activity[n] === BLOCKED);
    return all.map((n) => [h.machine[n], h.goroutine[n], h.from[n], h.to[n]]);
  },

  /** All arrows: kind, begin, track on which it begins, end, P on which it ends, G that begins to run there. */
  arrows() {
    const h = history_, list = [];
    for (let n = 0; n < h.count; n++) {
      if (h.activity[n] !== RUN) continue;
      for (const { kind, at, track } of arrowsTo(h, n)) list.push([kind, at, track, h.from[n], h.processor[n], h.goroutine[n]]);
    }
    return list;
  },

  threads: () => [...history_.ofCpu.all].map((n) => [history_.processor[n] - CPUS, history_.machine[n], history_.from[n], history_.to[n]]),
  interrupts: () => history_.interrupts.flatMap(({ from, to, name }, cpu) => [...from].map((begin, n) => [cpu, DATA.texts[name[n]], begin, to[n]])),
  waits: () => history_.longest.list.map(({ g, from, to, why, by, processor }) => [to - from, g, why, from, by, processor]),
  cells: (row) => [...row.cells].map((cell) => cell.textContent),
  table: () => [...document.querySelectorAll('#waits tbody tr')].map(probe.cells),

  /** The queues at each multiple of `every` events, and whether jumps there lead to the same state as stepping. */
  moments(every) {
    const stepped = new State(), list = [], states = [];
    const all = (state) => JSON.stringify([[...state.next], state.rings, [...state.global], [...state.locked], [...state.runs], [...state.state], [...state.blocked], [...state.thread]]);
    for (; ; stepped.step(null)) {
      const { position: events, next, rings, global, locked, runs } = stepped;
      if (events % every === 0) {
        list.push([{ events, next: [...next], rings: rings.map((ring) => [...ring]), global: [...global], locked: [...locked], runs: [...runs] }]);
        states.push(all(stepped));
      }
      if (events === EVENTS.count) break;
    }
    const isSame = (number) => states[number] === all(history_.stateAt(number * every));
    // First back from moment to moment, and then forward.
    const back = states.map((_, number) => isSame(states.length - 1 - number)).reverse();
    return list.map(([moment], number) => [moment, back[number] && isSame(number)]);
  },

  /** The Gs that the picture of a moment shows in this place. */
  picture: (place) => [...document.querySelectorAll(`#moment [data-place="${place}"]`)].map((circle) => Number(circle.dataset.g)),

  /** What is shown. */
  shown: () => ({
    position, cursor: timeline.cursor, chosen: timeline.chosen, from: timeline.from, to: timeline.to, tab, byMachine: timeline.byMachine,
    theme: document.documentElement.dataset.theme,
  }),

  /** The point of the window where this row shows this time. */
  point(row, when) {
    const { left, top } = element('timeline').getBoundingClientRect();
    return [left + timeline.x(when), top + timeline.y(row) + timeline.row / 2];
  },

  /** Draws a frame, and returns the calls of this method of the timeline. */
  drawn(method) {
    const calls = [], original = timeline[method];
    timeline[method] = (...values) => calls.push(values);
    timeline.drawNow();
    delete timeline[method];
    if (timeline[method] !== original) throw new Error('the method was not restored');
    return calls;
  },

  /** The texts that are drawn. */
  texts() {
    const c = timeline.context, list = [];
    c.fillText = (text) => list.push(text);
    timeline.drawNow();
    delete c.fillText;
    return list;
  },

  /** Where the timeline is in the window. */
  view: () => element('view').getBoundingClientRect().toJSON(),

  /** The lines that are drawn from row to row: both ends, and the size of the dashes. */
  lines() {
    const c = timeline.context, list = [];
    let from, dash = [];
    const own = {
      moveTo: (...point) => (from = point), lineTo: (...to) => list.push([...from, ...to, dash[0] ?? 0]), setLineDash: (sizes) => (dash = sizes),
    };
    Object.assign(c, own);
    timeline.drawNow();
    Object.keys(own).forEach((name) => delete c[name]);
    return list;
  },

  /** The color of a pixel of the timeline: red, green, blue. */
  pixel(row, when) {
    const scale = window.devicePixelRatio || 1;
    timeline.drawNow();
    return [...timeline.context.getImageData(timeline.x(when) * scale, (timeline.y(row) + timeline.row * 0.3) * scale, 1, 1).data].slice(0, 3);
  },

  /** The size of all arrays that the page keeps, in bytes. An element of an array that is not typed counts as 8 bytes. */
  bytes() {
    const seen = new Set();
    let sum = 0;
    const visit = (value) => {
      if (typeof value !== 'object' || value === null || value instanceof Node || value instanceof CanvasRenderingContext2D || seen.has(value)) return;
      seen.add(value);
      if (ArrayBuffer.isView(value)) {
        if (!seen.has(value.buffer)) sum += value.buffer.byteLength;
        seen.add(value.buffer);
        return;
      }
      const all = value instanceof Map || value instanceof Set ? [...value] : Object.values(value);
      sum += 8 * all.length;
      all.forEach(visit);
    };
    [EVENTS, history_, timeline].forEach(visit);
    return sum;
  },

  /** The number of events that an action replays. */
  steps(action) {
    const { step } = State.prototype;
    let count = 0;
    State.prototype.step = function (sink) {
      count++;
      return step.call(this, sink);
    };
    action();
    State.prototype.step = step;
    return count;
  },

  /** How many sizes of states are computed while this number of checkpoints is added. */
  sizes(checkpoints) {
    const { bytes } = State.prototype, state = history_.checkpoints.at(-1);
    const copy = Object.assign(Object.create(History.prototype), history_, { checkpoints: [...history_.checkpoints] });
    let count = 0;
    State.prototype.bytes = function () {
      count++;
      return bytes.call(this);
    };
    for (let number = 0; number < checkpoints; number++) copy.checkpoint(state);
    State.prototype.bytes = bytes;
    return count;
  },

  reads: 0,
  isCounting: false,

  /** From now on, counts in `reads` each element that is read from an array of the page. */
  count() {
    const counted = (array) => new Proxy(array, {
      get(target, key) {
        probe.reads++;
        const value = target[key];
        if (typeof value !== 'function') return value;
        return (...values) => {
          const result = value.apply(target, values);
          // A part of the array counts, too.
          return key === 'subarray' ? counted(result) : result;
        };
      },
    });
    const visit = (owner) => {
      for (const [name, value] of Object.entries(owner)) {
        if (name === 'checkpoints' || name === 'last' || typeof value !== 'object' || value === null) continue;
        const isColumn = ArrayBuffer.isView(value) || (Array.isArray(value) && typeof value[0] === 'number');
        if (isColumn) owner[name] = counted(value);
        else if (Array.isArray(value) || value instanceof Lists || value instanceof Peaks || Object.getPrototypeOf(value) === Object.prototype) visit(value);
      }
    };
    if (!probe.isCounting) [history_, EVENTS, timeline.spans].forEach(visit);
    probe.isCounting = true;
    // The rows are made anew when they become those of Ms.
    timeline.rows.forEach(visit);
  },

  /** Draws a frame. Returns how many elements of arrays it reads, and how long it takes in milliseconds. */
  frame() {
    probe.reads = 0;
    const start = performance.now();
    timeline.drawNow();
    return { reads: probe.reads, time: performance.now() - start };
  },

  /** The visible texts whose size is less than this number of pixels. */
  small(least) {
    const size = (one) => parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM?.().a ?? 1);
    const all = [...document.querySelectorAll('button, input, td, #event, #facts, p, svg text')];
    return all.filter((one) => one.getClientRects().length && size(one) < least).map((one) => `${one.textContent}: ${size(one)}`);
  },

  /** The texts of pictures that extend over the left or right edge of their picture, or over a scroll bar. */
  cutOff() {
    const isOut = (one) => {
      const text = one.getBoundingClientRect(), picture = one.closest('svg').getBoundingClientRect(), { left } = one.closest('section').getBoundingClientRect();
      return text.left < picture.left || text.right > Math.min(picture.right, left + one.closest('section').clientWidth);
    };
    return [...document.querySelectorAll('svg text')].filter((one) => one.getClientRects().length && isOut(one)).map((one) => one.textContent);
  },

  /** The contrast of two colors of the style, as WCAG 2 defines it. */
  contrast(first, second) {
    const luminance = (name) => {
      const hex = timeline.style(name).slice(1);
      const [red, green, blue] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  },
};
