// Idle gaps: periods in which nothing runs. On request, they are drawn short, so that a program that sleeps most of the time
// fills the view. Texts show the real times and durations.

/**
 * A gap is drawn short if it is longer than the share `LONG_GAP` of the time in which something runs. Then it is drawn as long
 * as the share `SHORT_GAP` of this time.
 */
const LONG_GAP = 1 / 40, SHORT_GAP = 1 / 160;

/** The long gaps of a trace, and the place of each time on an axis on which these gaps are short. */
class Gaps {
  constructor(history) {
    const periods = [...Array(history.count).keys()].filter((n) => history.processor[n] < CPUS || history.activity[n] === BLOCKED);
    periods.sort((a, b) => history.from[a] - history.from[b]);
    const all = [];
    let busy = 0, end = 0;
    for (const n of [...periods, -1]) {
      const from = n < 0 ? DURATION : history.from[n], to = n < 0 ? DURATION : history.to[n];
      if (from > end) all.push([end, from]);
      busy += Math.max(0, to - Math.max(from, end));
      end = Math.max(end, to);
    }
    const long = all.filter(([from, to]) => to - from > busy * LONG_GAP);
    this.length = Math.max(1, busy * SHORT_GAP);
    this.from = Float64Array.from(long, ([from]) => from);
    this.to = Float64Array.from(long, ([, to]) => to);
    /** Where each gap begins on the axis. */
    this.places = new Float64Array(long.length);
    let removed = 0;
    long.forEach(([from, to], index) => {
      this.places[index] = from - removed;
      removed += to - from - this.length;
    });
  }

  /** The place of a time on the axis. */
  place(when) {
    const index = countUpTo(this.from, when) - 1;
    if (index < 0) return when;
    const { length } = this, from = this.from[index], to = this.to[index], place = this.places[index];
    return when < to ? place + ((when - from) / (to - from)) * length : place + length + when - to;
  }

  /** The time at a place. */
  when(place) {
    const index = countUpTo(this.places, place) - 1;
    if (index < 0) return place;
    const { length } = this, from = this.from[index], to = this.to[index], inside = place - this.places[index];
    return inside < length ? from + (inside / length) * (to - from) : to + inside - length;
  }
}
