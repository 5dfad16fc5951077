// What happened in the whole trace: periods, waits and arrows.

/** The kinds of events at which a period may begin that is shown. */
const BEGINS = ['Start', 'Switch', 'SyscallEnter', 'SyscallExit', 'Spin', 'Stop', 'HandOff', 'Retake', 'RunMachine', 'RunThread'];

/** The largest size of all checkpoints together, in bytes. */
const CHECKPOINT_BYTES = 64e6;
/** The number of events between two checkpoints, as long as there is room for that many. */
const INTERVAL = 2048;

/** How many of the longest waits are kept. */
const LONGEST = 60;

/** All periods of Ps, Ms and CPUs, all arrows and the longest waits: the result of replaying all events. */
class History {
  constructor() {
    const begins = new Uint8Array(256);
    for (const name of BEGINS) begins[KIND[name]] = 1;
    // A P may also have run a G when the trace began.
    const limit = EVENTS.kind.reduce((sum, kind) => sum + begins[kind], DATA.processors);
    this.count = 0;
    this.from = new Float64Array(limit);
    this.to = new Float64Array(limit);
    this.processor = new Uint16Array(limit);
    this.machine = new Int32Array(limit);
    this.activity = new Uint8Array(limit);
    this.goroutine = new Int32Array(limit);
    /** The event that has ended the period. */
    this.end = new Uint32Array(limit);
    /** For periods in which a G runs: how it became runnable. */
    this.readyAt = new Float64Array(limit).fill(NaN);
    this.readyOn = new Int32Array(limit).fill(-1);
    this.by = new Int32Array(limit).fill(BY_UNKNOWN);
    this.parkedAt = new Float64Array(limit).fill(NaN);
    this.reason = new Uint8Array(limit);
    this.stolenFrom = new Int32Array(limit).fill(-1);
    this.stolenAt = new Float64Array(limit).fill(NaN);
    this.handedOffAt = new Float64Array(limit).fill(NaN);
    this.raisedAt = new Float64Array(limit).fill(NaN);
    this.raisedOn = new Int32Array(limit).fill(-1);
    /** For each CPU: its interrupts, as columns. */
    this.interrupts = Array.from({ length: DATA.cpus }, () => ({ from: [], to: [], name: [] }));
    /** The events of callers without a P. */
    this.outside = [];
    this.longest = new Longest(LONGEST);
    /** The periods in which the world was stopped, as columns. */
    this.stops = { from: [], to: [] };
    this.checkpoints = [];
    /** The size of all checkpoints together. */
    this.checkpointBytes = 0;
    this.interval = INTERVAL;
    /** The state that `stateAt` returned last. */
    this.last = null;
    /** For each P: how the G that runs there had become runnable. */
    this.current = Array.from({ length: DATA.processors }, () => null);
    this.handedOff = new Float64Array(DATA.processors).fill(NaN);
    /** The number of runnable Gs after each event. */
    this.runnable = new Peaks(EVENTS.count);
    this.origins = new Origins();
    this.replay();
    this.origins = null;
    this.index();
  }

  replay() {
    const state = new State();
    let runnable = 0;
    while (state.position < EVENTS.count) {
      const i = state.position;
      if (i % this.interval === 0) this.checkpoint(state);
      const g = EVENTS.goroutine[i] === NO_GOROUTINE ? -1 : EVENTS.goroutine[i];
      if (EVENTS.track[i] === NO_P) this.outside.push(i);
      const before = g >= 0 ? state.state[g] : UNKNOWN;
      if (before === WAITING && EVENTS.kind[i] === KIND.Ready) {
        this.wait(g, state.since[g], EVENTS.when[i], state.reason[g], EVENTS.detail[i]);
      }
      state.step(this);
      const after = g >= 0 ? state.state[g] : UNKNOWN;
      runnable += (after === RUNNABLE) - (before === RUNNABLE);
      this.runnable.set(i, Math.max(0, runnable));
    }
    this.runnable.finish();
    for (let p = 0; p < DATA.processors; p++) state.change(p, IDLE, -1, DURATION, EVENTS.count, this);
    for (const g of [...state.blocked.keys()]) state.unblock(g, DURATION, this);
    for (let cpu = 0; cpu < DATA.cpus; cpu++) {
      state.changeThread(cpu, HALTS, DURATION, EVENTS.count, this);
      state.endInterrupt(cpu, DURATION, this);
    }
    if (state.worldStopped >= 0) this.stopped(state.worldStopped, DURATION);
  }

  /** Keeps a copy of the state. If the copies become too large, drops every second one. */
  checkpoint(state) {
    const copy = state.clone();
    this.checkpoints.push(copy);
    this.checkpointBytes += copy.bytes();
    while (this.checkpointBytes > CHECKPOINT_BYTES && this.checkpoints.length > 1) {
      this.checkpoints = this.checkpoints.filter((_, number) => number % 2 === 0);
      this.checkpointBytes = this.checkpoints.reduce((sum, kept) => sum + kept.bytes(), 0);
      this.interval *= 2;
    }
  }

  // `State.step` calls the following methods.

  /** A period ends. */
  slice(p, machine, activity, g, from, to, end) {
    const readied = p < CPUS ? this.current[p] : null;
    if (p < CPUS) this.current[p] = null;
    // Periods of these activities are not shown.
    if (activity === IDLE || activity === SCHEDULE) return;
    const n = this.count++;
    this.from[n] = from;
    this.to[n] = to;
    this.processor[n] = p;
    this.machine[n] = machine;
    this.activity[n] = activity;
    this.goroutine[n] = g;
    this.end[n] = end;
    if (!readied) return;
    this.readyAt[n] = readied.at;
    this.readyOn[n] = readied.on;
    this.by[n] = readied.by;
    this.parkedAt[n] = readied.parkedAt;
    this.reason[n] = readied.reason;
    this.stolenFrom[n] = readied.stolenFrom;
    this.stolenAt[n] = readied.stolenAt;
    this.handedOffAt[n] = readied.handedOffAt;
    this.raisedAt[n] = readied.raisedAt;
    this.raisedOn[n] = readied.raisedOn;
    if (activity === RUN) this.longest.offer({ g, from: readied.at, to: from, why: 'run queue', by: BY_UNKNOWN, processor: p });
  }

  interrupted(cpu, name, from, to) {
    const list = this.interrupts[cpu];
    list.from.push(from);
    list.to.push(to);
    list.name.push(name);
  }

  parked(g, when) {
    this.origins.parkedAt[g] = when;
  }

  readied(g, at, on, by) {
    const { origins } = this;
    origins.at[g] = at;
    origins.on[g] = on;
    origins.by[g] = by;
    origins.stolenFrom[g] = -1;
  }

  stolen(g, victim, when) {
    this.origins.stolenFrom[g] = victim;
    this.origins.stolenAt[g] = when;
  }

  raised(g, when, track) {
    this.origins.raisedAt[g] = when;
    this.origins.raisedOn[g] = track;
  }

  /** A G starts. */
  start(g, p, reason) {
    const { origins } = this;
    this.current[p] = {
      at: origins.at[g], on: origins.on[g], by: origins.by[g], parkedAt: origins.parkedAt[g], reason,
      stolenFrom: origins.stolenFrom[g], stolenAt: origins.stolenAt[g], handedOffAt: this.handedOff[p], raisedAt: origins.raisedAt[g], raisedOn: origins.raisedOn[g],
    };
    this.handedOff[p] = NaN;
    origins.raisedOn[g] = -1;
  }

  handOff(p, when) {
    this.handedOff[p] = when;
  }

  /** A G that returned from a call has taken the P. So the last handoff of the P does not lead to the G that starts next. */
  regained(p) {
    this.handedOff[p] = NaN;
  }

  wait(g, from, to, reason, by) {
    this.longest.offer({ g, from, to, why: DATA.reasons[reason], by, processor: -1 });
  }

  stopped(from, to) {
    this.stops.from.push(from);
    this.stops.to.push(to);
  }

  /** Makes the lists of the periods of each P, of each CPU, of each M, and of each G. */
  index() {
    const { processor, machine, activity, goroutine } = this;
    const machines = 1 + machine.subarray(0, this.count).reduce((most, number) => Math.max(most, number), -1);
    this.ofProcessor = new Lists(this, DATA.processors, (n) => (processor[n] < CPUS ? processor[n] : -1));
    this.ofCpu = new Lists(this, DATA.cpus, (n) => (isCpu(processor[n]) ? processor[n] - CPUS : -1));
    this.ofMachine = new Lists(this, machines, (n) => (activity[n] !== THREAD ? machine[n] : -1));
    this.ofGoroutine = new Lists(this, DATA.goroutines.length, (n) => goroutine[n]);
  }

  /** The state after `position` events. It is valid until the next call. */
  stateAt(position) {
    const number = Math.min(Math.floor(position / this.interval), this.checkpoints.length - 1);
    // A step forward continues from the last state, unless a checkpoint is nearer.
    const isNear = this.last && this.last.position <= position && this.last.position >= number * this.interval;
    if (!isNear) this.last = this.checkpoints[number]?.clone() ?? new State();
    while (this.last.position < position) this.last.step(null);
    return this.last;
  }
}

/** For each G: when and by whom it was readied last, on which track, when its last wait began, and so on. */
class Origins {
  constructor() {
    const gs = DATA.goroutines.length;
    this.at = new Float64Array(gs).fill(NaN);
    this.on = new Int32Array(gs).fill(-1);
    this.by = new Int32Array(gs).fill(BY_UNKNOWN);
    this.parkedAt = new Float64Array(gs).fill(NaN);
    this.stolenFrom = new Int32Array(gs).fill(-1);
    this.stolenAt = new Float64Array(gs).fill(NaN);
    /** When and on which track an interrupt raised the signal for which the G waits. */
    this.raisedAt = new Float64Array(gs).fill(NaN);
    this.raisedOn = new Int32Array(gs).fill(-1);
  }
}

/** Lists of periods, one for each key, each in the order of time. `key` returns -1 for a period that is in no list. */
class Lists {
  constructor(history, length, key) {
    this.length = length;
    this.begin = new Uint32Array(length + 1);
    for (let n = 0; n < history.count; n++) if (key(n) >= 0) this.begin[key(n) + 1]++;
    for (let list = 0; list < length; list++) this.begin[list + 1] += this.begin[list];
    this.all = new Uint32Array(this.begin[length]);
    const next = this.begin.slice();
    for (let n = 0; n < history.count; n++) if (key(n) >= 0) this.all[next[key(n)]++] = n;
    const { from } = history;
    for (let list = 0; list < length; list++) {
      // Periods are numbered in the order in which they ended. In most lists they also began in this order.
      const own = this.of(list);
      if (own.some((n, index) => index > 0 && from[n] < from[own[index - 1]])) own.sort((a, b) => from[a] - from[b]);
    }
  }

  of(key) {
    return this.all.subarray(this.begin[key], this.begin[key + 1]);
  }
}

/** A column of numbers that finds the largest number of a range, as a tree of maxima. */
class Peaks {
  constructor(count) {
    this.count = count;
    this.tree = new Uint32Array(2 * count);
  }

  set(index, value) {
    this.tree[this.count + index] = value;
  }

  get(index) {
    return this.tree[this.count + index];
  }

  /** Called after all numbers are set. */
  finish() {
    const { tree } = this;
    for (let node = this.count - 1; node > 0; node--) tree[node] = Math.max(tree[2 * node], tree[2 * node + 1]);
  }

  /** The largest number at an index from `from` until, but without, `to`; 0 if there is none. */
  most(from, to) {
    const { tree } = this;
    let most = 0;
    for (let low = from + this.count, high = to + this.count; low < high; low >>= 1, high >>= 1) {
      if (low & 1) most = Math.max(most, tree[low++]);
      if (high & 1) most = Math.max(most, tree[--high]);
    }
    return most;
  }
}

/** Keeps the longest waits of all that are offered, longest first. */
class Longest {
  constructor(most) {
    this.most = most;
    this.list = [];
  }

  offer(wait) {
    const { list } = this, length = wait.to - wait.from;
    if (list.length === this.most && list[this.most - 1].length >= length) return;
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle].length >= length) low = middle + 1;
      else high = middle;
    }
    if (list.length === this.most) list.pop();
    list.splice(low, 0, { ...wait, length });
  }
}

/** The number of elements of a sorted column that are at most `value`. This number must be between `low` and `high`. */
function countUpTo(column, value, low = 0, high = column.length) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** As `countUpTo`, but fast if the number is not much more than `low`. */
function countOnwards(column, value, low) {
  let step = 1;
  while (low + step <= column.length && column[low + step - 1] <= value) {
    low += step;
    step *= 2;
  }
  return countUpTo(column, value, low, Math.min(column.length, low + step));
}

/** The number of periods of a list whose entry in `column` is at most `value`. The list must be sorted by this column. */
function countPeriods(list, column, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[list[middle]] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The arrows that end where the period `n` begins: from the waker or the interrupt, from the victim of a steal, and from
 * a handoff.
 */
function arrowsTo(history, n) {
  const arrows = [];
  const at = history.readyAt[n], by = history.by[n], on = history.readyOn[n];
  if (on >= 0 && (by >= 0 || by === BY_UNKNOWN || by === RETURNED)) arrows.push({ kind: 'ready', at, track: on });
  if (on >= 0 && by === BY_TIMER) arrows.push({ kind: 'timer', at, track: on });
  if (on >= 0 && by === BY_DEVICE) {
    const isRaised = history.raisedOn[n] >= 0;
    arrows.push({ kind: 'device', at: isRaised ? history.raisedAt[n] : at, track: isRaised ? history.raisedOn[n] : on });
  }
  if (history.stolenFrom[n] >= 0) arrows.push({ kind: 'steal', at: history.stolenAt[n], track: history.stolenFrom[n] });
  if (!Number.isNaN(history.handedOffAt[n])) {
    arrows.push({ kind: 'handoff', at: history.handedOffAt[n], track: history.processor[n] });
  }
  return arrows;
}
