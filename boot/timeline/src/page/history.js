// What happened in the whole trace: periods, waits and arrows.

/** All periods of Ps, Ms and CPUs, all waits and arrows: the result of replaying all events. */
class History {
  constructor() {
    // Each event ends at most two periods, and the end of the trace ends one for each P, each M and each CPU.
    const limit = 2 * EVENTS.count + DATA.processors + DATA.cpus + DATA.goroutines.length + 1;
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
    this.handedOffAt = new Float64Array(limit).fill(NaN);
    this.raisedAt = new Float64Array(limit).fill(NaN);
    this.raisedOn = new Int32Array(limit).fill(-1);
    /** For each CPU: its interrupts, as columns. */
    this.interrupts = Array.from({ length: DATA.cpus }, () => ({ from: [], to: [], name: [] }));
    /** The events of callers without a P. */
    this.outside = [];
    this.waits = { goroutine: [], from: [], to: [], reason: [], by: [] };
    this.stops = [];
    this.checkpoints = [];
    /** For each P: how the G that runs there had become runnable. */
    this.current = Array.from({ length: DATA.processors }, () => null);
    this.handedOff = new Float64Array(DATA.processors).fill(NaN);
    this.counts = { when: [], runnable: [], running: [] };
    this.replay();
    this.index();
  }

  replay() {
    const state = new State();
    // Checkpoints contain all Gs, so there are fewer of them if there are many Gs.
    this.interval = Math.max(2048, Math.ceil((EVENTS.count * DATA.goroutines.length) / 2e7));
    let runnable = 0, running = 0;
    while (state.position < EVENTS.count) {
      const i = state.position;
      if (i % this.interval === 0) this.checkpoints.push(state.clone());
      const g = EVENTS.goroutine[i] === NO_GOROUTINE ? -1 : EVENTS.goroutine[i];
      const p = EVENTS.track[i];
      if (p === NO_P) this.outside.push(i);
      const before = g >= 0 ? state.state[g] : UNKNOWN;
      const kind = EVENTS.kind[i];
      if (g >= 0 && state.state[g] === WAITING && kind === KIND.Ready) {
        this.wait(g, state.since[g], EVENTS.when[i], state.reason[g], EVENTS.detail[i]);
      }
      const called = kind === KIND.Retake ? state.runs[p] : -1;
      state.step(this);
      const after = g >= 0 ? state.state[g] : UNKNOWN;
      runnable += (after === RUNNABLE) - (before === RUNNABLE);
      // Of two Gs that switch directly, one ran before and the other runs after, so the number of running Gs stays the
      // same.
      if (kind !== KIND.Switch) running += (after === RUNNING) - (before === RUNNING) - (called >= 0);
      this.counts.when.push(EVENTS.when[i]);
      this.counts.runnable.push(Math.max(0, runnable));
      this.counts.running.push(Math.max(0, running));
    }
    for (let p = 0; p < DATA.processors; p++) state.change(p, IDLE, -1, DURATION, EVENTS.count, this);
    for (const g of [...state.blocked.keys()]) state.unblock(g, DURATION, this);
    for (let cpu = 0; cpu < DATA.cpus; cpu++) {
      state.changeThread(cpu, HALTS, DURATION, EVENTS.count, this);
      state.endInterrupt(cpu, DURATION, this);
    }
    if (state.worldStopped >= 0) this.stopped(state.worldStopped, DURATION);
  }

  /** Called by `State.step` when a period ends. */
  slice(p, machine, activity, g, from, to, end) {
    const readied = p < CPUS ? this.current[p] : null;
    if (p < CPUS) this.current[p] = null;
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
    this.handedOffAt[n] = readied.handedOffAt;
    this.raisedAt[n] = readied.raisedAt;
    this.raisedOn[n] = readied.raisedOn;
  }

  interrupted(cpu, name, from, to) {
    const list = this.interrupts[cpu];
    list.from.push(from);
    list.to.push(to);
    list.name.push(name);
  }

  /** Called by `State.step` when a G starts. */
  start(g, p, state) {
    this.current[p] = {
      at: state.readyAt[g], on: state.readyOn[g], by: state.by[g], parkedAt: state.parkedAt[g],
      reason: state.reason[g], stolenFrom: state.stolenFrom[g], handedOffAt: this.handedOff[p],
      raisedAt: state.raisedAt[g], raisedOn: state.raisedOn[g],
    };
    this.handedOff[p] = NaN;
  }

  handOff(p, when) {
    this.handedOff[p] = when;
  }

  wait(g, from, to, reason, by) {
    const { waits } = this;
    waits.goroutine.push(g);
    waits.from.push(from);
    waits.to.push(to);
    waits.reason.push(reason);
    waits.by.push(by);
  }

  stopped(from, to) {
    this.stops.push([from, to]);
  }

  /** Makes a list of the periods of each P, of each CPU, of each M, and of each G. Each list is in the order of time. */
  index() {
    const collect = (key, groups) => {
      const lists = Array.from({ length: groups }, () => []);
      for (let n = 0; n < this.count; n++) {
        const group = key(n);
        if (group >= 0) lists[group].push(n);
      }
      return lists;
    };
    const isShown = (n) => this.activity[n] !== IDLE && this.activity[n] !== SCHEDULE && this.to[n] >= this.from[n];
    const byTime = (a, b) => this.from[a] - this.from[b];
    this.ofProcessor = collect((n) => (this.processor[n] < CPUS && isShown(n) ? this.processor[n] : -1), DATA.processors);
    this.ofCpu = collect((n) => (isCpu(this.processor[n]) ? this.processor[n] - CPUS : -1), DATA.cpus);
    const machines = 1 + this.machine.subarray(0, this.count).reduce((most, machine) => Math.max(most, machine), -1);
    this.ofMachine = collect((n) => (isShown(n) && this.activity[n] !== THREAD ? this.machine[n] : -1), machines);
    this.ofMachine.forEach((list) => list.sort(byTime));
    this.ofGoroutine = collect((n) => (isShown(n) ? this.goroutine[n] : -1), DATA.goroutines.length);
    this.ofGoroutine.forEach((list) => list.sort(byTime));
  }

  /** The state after `position` events. */
  stateAt(position) {
    const last = this.checkpoints[Math.min(Math.floor(position / this.interval), this.checkpoints.length - 1)];
    const state = last ? last.clone() : new State();
    while (state.position < position) state.step(null);
    return state;
  }
}

/** The number of elements of a sorted column that are at most `value`. */
function countUpTo(column, value) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The arrows that end where the period `n` begins: from the waker or the interrupt, from the victim of a steal, from a
 * handoff.
 */
function arrowsTo(history, n) {
  const arrows = [];
  const at = history.readyAt[n], by = history.by[n], on = history.readyOn[n];
  if (on >= 0 && (by >= 0 || by === BY_UNKNOWN || by === RETURNED)) arrows.push({ kind: 'ready', at, track: on });
  if (on >= 0 && by === BY_DEVICE) {
    const isRaised = history.raisedOn[n] >= 0;
    arrows.push({ kind: 'device', at: isRaised ? history.raisedAt[n] : at, track: isRaised ? history.raisedOn[n] : on });
  }
  if (history.stolenFrom[n] >= 0) arrows.push({ kind: 'steal', at, track: history.stolenFrom[n] });
  if (!Number.isNaN(history.handedOffAt[n])) {
    arrows.push({ kind: 'handoff', at: history.handedOffAt[n], track: history.processor[n] });
  }
  return arrows;
}
