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

  threads: () => history_.ofCpu.flatMap((list) => [...list].map((n) => [history_.processor[n] - CPUS, history_.machine[n], history_.from[n], history_.to[n]])),
  interrupts: () => history_.interrupts.flatMap(({ from, to, name }, cpu) => [...from].map((begin, n) => [cpu, DATA.texts[name[n]], begin, to[n]])),
  waits: () => longestWaits(history_).map(({ g, from, to, why, by, processor }) => [to - from, g, why, from, by, processor]),
  cells: (row) => [...row.cells].map((cell) => cell.textContent),
  table: () => [...document.querySelectorAll('#waits tbody tr')].map(probe.cells),

  /** The queues after this number of events, and whether a jump there leads to the same state as stepping. */
  moments(every) {
    const stepped = new State(), list = [];
    const all = (state) => JSON.stringify([[...state.next], state.rings, state.global, [...state.runs], [...state.state], [...state.blocked], [...state.thread]]);
    for (let events = 0; ; events++) {
      if (events % every === 0) {
        const { next, rings, global, runs } = stepped;
        list.push([{ events, next: [...next], rings: rings.map((ring) => [...ring]), global: [...global], runs: [...runs] }, all(stepped) === all(history_.stateAt(events))]);
      }
      if (events === EVENTS.count) return list;
      stepped.step(null);
    }
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
    if (timeline[method] !== original) throw new Error('the method was restored');
    return calls;
  },

  /** The lines and the sizes of their dashes that are drawn from row to row. */
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
