// Replays the events. `src/model.rs` does the same for the JSON file.

/** The columns of the events: see `columns` in `src/page.rs`. */
const EVENTS = (() => {
  const bytes = Uint8Array.from(atob(DATA.columns), (character) => character.charCodeAt(0)).buffer;
  delete DATA.columns;
  const count = DATA.count;
  return {
    count,
    when: new Float64Array(bytes, 0, count),
    detail: new Float64Array(bytes, 8 * count, count),
    goroutine: new Uint32Array(bytes, 16 * count, count),
    processor: new Uint16Array(bytes, 20 * count, count),
    kind: new Uint8Array(bytes, 22 * count, count),
  };
})();

/** The numbers of the kinds of events, by name. */
const KIND = Object.fromEntries(DATA.kinds.map((name, number) => [name, number]));

const NO_GOROUTINE = 0xffffffff;
const DURATION = EVENTS.count ? EVENTS.when[EVENTS.count - 1] : 0;

/** What a P does during a period. `BLOCKED` is for a period in which an M without a P is blocked in a call. */
const IDLE = 0, RUN = 1, SYSCALL = 2, SCHEDULE = 3, SEARCH = 4, STOPPED = 5, BLOCKED = 6;

/** What a G does. */
const UNKNOWN = 0, RUNNABLE = 1, RUNNING = 2, WAITING = 3, IN_CALL = 4, DEAD = 5;

/** In which queue a runnable G is. `HANDED` is between queues: the G is about to run. */
const NOWHERE = 0, NEXT = 1, RING = 2, GLOBAL = 3, HANDED = 4;

/** Why a G became runnable, if no other G made it runnable. */
const BY_UNKNOWN = -1, BY_TIMER = -2, BY_DEVICE = -3, GAVE_WAY = -4;

/** The state of the scheduler between two events. */
class State {
  constructor() {
    const gs = DATA.goroutines.length, ps = DATA.processors;
    /** The number of events that have been replayed. */
    this.position = 0;
    this.state = new Uint8Array(gs);
    this.since = new Float64Array(gs);
    this.reason = new Uint8Array(gs);
    /** The queue of each runnable G, and the P of that queue. */
    this.place = new Uint8Array(gs);
    this.queueOf = new Uint16Array(gs);
    /** When and by whom each G was readied last, where, and when its last wait began. */
    this.readyAt = new Float64Array(gs).fill(NaN);
    this.readyOn = new Int32Array(gs).fill(-1);
    this.by = new Int32Array(gs).fill(BY_UNKNOWN);
    this.parkedAt = new Float64Array(gs).fill(NaN);
    this.stolenFrom = new Int32Array(gs).fill(-1);
    this.activity = new Uint8Array(ps);
    this.runs = new Int32Array(ps).fill(-1);
    this.machine = new Int32Array(ps).fill(-1);
    this.busySince = new Float64Array(ps);
    this.known = new Uint8Array(ps);
    this.next = new Int32Array(ps).fill(-1);
    this.rings = Array.from({ length: ps }, () => []);
    this.global = [];
    /** The M of each G that is blocked in a call without a P. */
    this.blocked = new Map();
    /** All Ms that have been seen. */
    this.machines = new Set();
    this.worldStopped = -1;
  }

  clone() {
    const copy = Object.create(State.prototype);
    for (const [name, value] of Object.entries(this)) {
      if (ArrayBuffer.isView(value)) copy[name] = value.slice();
      else if (value instanceof Map) copy[name] = new Map(value);
      else if (value instanceof Set) copy[name] = new Set(value);
      else if (name === 'rings') copy[name] = value.map((ring) => ring.slice());
      else copy[name] = Array.isArray(value) ? value.slice() : value;
    }
    return copy;
  }

  /** Replays the next event. Calls methods of `sink`, if given, for each period that ends and each G that starts. */
  step(sink) {
    const i = this.position++;
    const when = EVENTS.when[i], detail = EVENTS.detail[i], p = EVENTS.processor[i], kind = EVENTS.kind[i];
    const g = EVENTS.goroutine[i] === NO_GOROUTINE ? -1 : EVENTS.goroutine[i];
    this.assume(kind, p, g);
    switch (kind) {
      case KIND.Spawn:
      case KIND.Ready: {
        this.unqueue(g);
        if (kind === KIND.Spawn) this.parkedAt[g] = NaN;
        this.setRunnable(g, when, p, detail);
        if (detail === BY_TIMER) this.place[g] = HANDED;
        else this.putNext(p, g);
        break;
      }
      case KIND.Start: {
        const at = Math.max(0, when - detail);
        this.unblock(g, at, sink);
        if (this.state[g] !== RUNNABLE || Number.isNaN(this.readyAt[g])) {
          if (this.state[g] === WAITING) sink?.wait(g, Math.min(this.since[g], at), at, this.reason[g], BY_UNKNOWN);
          this.setRunnable(g, at, -1, BY_UNKNOWN);
        }
        this.unqueue(g);
        this.change(p, RUN, g, when, i, sink);
        sink?.start(g, p, this);
        this.state[g] = RUNNING;
        this.since[g] = when;
        break;
      }
      case KIND.Yield:
      case KIND.Preempt: {
        this.change(p, SCHEDULE, -1, when, i, sink);
        this.parkedAt[g] = NaN;
        this.setRunnable(g, when, p, GAVE_WAY);
        if (kind === KIND.Yield) this.putLast(p, g);
        else if (detail === 0) this.place[g] = HANDED;
        else this.putNext(p, g);
        break;
      }
      case KIND.Park:
        this.change(p, SCHEDULE, -1, when, i, sink);
        this.state[g] = WAITING;
        this.since[g] = this.parkedAt[g] = when;
        this.reason[g] = Math.min(detail, DATA.reasons.length - 1);
        break;
      case KIND.End:
        this.change(p, SCHEDULE, -1, when, i, sink);
        this.state[g] = DEAD;
        break;
      case KIND.SyscallEnter:
        this.change(p, SYSCALL, g, when, i, sink);
        break;
      case KIND.SyscallExit:
        this.unblock(g, when, sink);
        this.change(p, RUN, g, when, i, sink);
        this.setMachine(p, detail);
        this.state[g] = RUNNING;
        this.since[g] = when;
        break;
      case KIND.HandOff:
        this.handOff(p, g, when, i, sink);
        break;
      case KIND.Retake:
        if (this.activity[p] === SYSCALL) this.handOff(p, this.runs[p], when, i, sink);
        break;
      case KIND.Steal: {
        const victim = detail % 2 ** 32, count = Math.floor(detail / 2 ** 32);
        this.unqueue(g);
        this.place[g] = HANDED;
        this.stolenFrom[g] = victim;
        for (const stolen of (this.rings[victim] ?? []).splice(0, count - 1)) {
          this.place[stolen] = NOWHERE;
          this.putLast(p, stolen);
        }
        break;
      }
      case KIND.GlobalPut:
        this.unqueue(g);
        this.place[g] = GLOBAL;
        this.global.push(g);
        break;
      case KIND.GlobalTake:
        this.unqueue(g);
        this.place[g] = HANDED;
        for (const taken of this.global.splice(0, detail - 1)) {
          this.place[taken] = NOWHERE;
          this.putLast(p, taken);
        }
        break;
      case KIND.Overflow:
        for (const moved of this.rings[p].splice(0, detail)) {
          this.place[moved] = GLOBAL;
          this.global.push(moved);
        }
        break;
      case KIND.Idle:
        this.change(p, IDLE, -1, when, i, sink);
        this.machine[p] = -1;
        break;
      case KIND.Stop:
        this.change(p, STOPPED, -1, when, i, sink);
        this.machine[p] = -1;
        break;
      case KIND.Busy:
        this.change(p, SCHEDULE, -1, when, i, sink);
        this.setMachine(p, detail);
        break;
      case KIND.Spin:
        this.change(p, SEARCH, -1, when, i, sink);
        break;
      case KIND.WorldStop:
        this.worldStopped = when;
        break;
      case KIND.WorldStart:
        if (this.worldStopped >= 0) sink?.stopped(this.worldStopped, when);
        this.worldStopped = -1;
        break;
      default:
    }
  }

  /** Called before an event is replayed. If the first event of a P is that a G leaves, this G was running before. */
  assume(kind, p, g) {
    if (this.known[p]) return;
    this.known[p] = 1;
    const leaves = [KIND.Yield, KIND.Preempt, KIND.Park, KIND.End, KIND.SyscallEnter, KIND.HandOff];
    if (g >= 0 && leaves.includes(kind)) {
      this.activity[p] = RUN;
      this.runs[p] = g;
      this.state[g] = RUNNING;
    }
  }

  setRunnable(g, when, p, by) {
    this.state[g] = RUNNABLE;
    this.since[g] = this.readyAt[g] = when;
    this.readyOn[g] = p;
    this.by[g] = by;
    this.stolenFrom[g] = -1;
  }

  /** Puts a G into `runnext`. The G that was there goes to the tail of the ring. */
  putNext(p, g) {
    const kicked = this.next[p];
    this.next[p] = g;
    this.place[g] = NEXT;
    this.queueOf[g] = p;
    if (kicked >= 0 && kicked !== g) this.putLast(p, kicked);
  }

  putLast(p, g) {
    this.place[g] = RING;
    this.queueOf[g] = p;
    this.rings[p].push(g);
  }

  unqueue(g) {
    const p = this.queueOf[g];
    if (this.place[g] === NEXT && this.next[p] === g) this.next[p] = -1;
    else if (this.place[g] === RING || this.place[g] === GLOBAL) {
      const queue = this.place[g] === RING ? this.rings[p] : this.global;
      const index = queue.indexOf(g);
      if (index === 0) queue.shift();
      else if (index > 0) queue.splice(index, 1);
    }
    this.place[g] = NOWHERE;
  }

  setMachine(p, machine) {
    this.machine[p] = machine;
    this.machines.add(machine);
  }

  handOff(p, g, when, i, sink) {
    this.change(p, IDLE, -1, when, i, sink);
    this.state[g] = IN_CALL;
    this.since[g] = when;
    this.blocked.set(g, this.machine[p]);
    this.machine[p] = -1;
    sink?.handOff(p, when);
  }

  unblock(g, to, sink) {
    if (!this.blocked.has(g)) return;
    sink?.slice(NO_P, this.blocked.get(g), BLOCKED, g, this.since[g], Math.max(to, this.since[g]), this.position - 1);
    this.blocked.delete(g);
    this.state[g] = RUNNING;
  }

  /** Ends the current period of a P, and begins another one. */
  change(p, activity, g, when, i, sink) {
    sink?.slice(p, this.machine[p], this.activity[p], this.runs[p], this.busySince[p], when, i);
    this.activity[p] = activity;
    this.runs[p] = g;
    this.busySince[p] = when;
  }
}

/** The number of the P in a period of an M that holds no P. */
const NO_P = 0xffff;

/** All periods of Ps and Ms, all waits and arrows: the result of replaying all events. */
class History {
  constructor() {
    // Each event ends at most two periods, and the end of the trace ends one for each P and each M.
    const limit = 2 * EVENTS.count + DATA.processors + DATA.goroutines.length + 1;
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
      const p = EVENTS.processor[i];
      const before = g >= 0 ? state.state[g] : UNKNOWN;
      const kind = EVENTS.kind[i];
      if (g >= 0 && state.state[g] === WAITING && kind === KIND.Ready) {
        this.wait(g, state.since[g], EVENTS.when[i], state.reason[g], EVENTS.detail[i]);
      }
      const called = kind === KIND.Retake ? state.runs[p] : -1;
      state.step(this);
      const after = g >= 0 ? state.state[g] : UNKNOWN;
      runnable += (after === RUNNABLE) - (before === RUNNABLE);
      running += (after === RUNNING) - (before === RUNNING) - (called >= 0);
      this.counts.when.push(EVENTS.when[i]);
      this.counts.runnable.push(Math.max(0, runnable));
      this.counts.running.push(Math.max(0, running));
    }
    for (let p = 0; p < DATA.processors; p++) state.change(p, IDLE, -1, DURATION, EVENTS.count, this);
    for (const g of [...state.blocked.keys()]) state.unblock(g, DURATION, this);
    if (state.worldStopped >= 0) this.stopped(state.worldStopped, DURATION);
  }

  /** Called by `State.step` when a period ends. */
  slice(p, machine, activity, g, from, to, end) {
    const readied = p === NO_P ? null : this.current[p];
    if (p !== NO_P) this.current[p] = null;
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
  }

  /** Called by `State.step` when a G starts. */
  start(g, p, state) {
    this.current[p] = {
      at: state.readyAt[g], on: state.readyOn[g], by: state.by[g], parkedAt: state.parkedAt[g],
      reason: state.reason[g], stolenFrom: state.stolenFrom[g], handedOffAt: this.handedOff[p],
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

  /** Makes a list of the periods of each P, of each M, and of each G. Each list is in the order of time. */
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
    this.ofProcessor = collect((n) => (this.processor[n] !== NO_P && isShown(n) ? this.processor[n] : -1), DATA.processors);
    const machines = 1 + this.machine.subarray(0, this.count).reduce((most, machine) => Math.max(most, machine), -1);
    this.ofMachine = collect((n) => (isShown(n) ? this.machine[n] : -1), machines);
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

const label = (g) => (g >= 0 ? DATA.goroutines[g][1] : '');

/** What made a G runnable, as words. */
function causeOf(by) {
  if (by >= 0) return label(by);
  return { [BY_TIMER]: 'a timer', [BY_DEVICE]: 'a device', [GAVE_WAY]: 'nobody: it gave way' }[by] ?? 'unknown';
}

/** A duration in nanoseconds, as text with three digits or more. */
function duration(ns) {
  const units = [['s', 1e9], ['ms', 1e6], ['µs', 1e3]];
  const [unit, size] = units.find(([, size]) => Math.abs(ns) >= size) ?? ['ns', 1];
  const value = ns / size;
  return `${size === 1 ? Math.round(value) : value.toFixed(Math.abs(value) < 10 ? 3 : Math.abs(value) < 100 ? 2 : 1)} ${unit}`;
}

/** Describes an event. */
function describe(i) {
  if (i < 0 || i >= EVENTS.count) return 'before the first event';
  const g = EVENTS.goroutine[i] === NO_GOROUTINE ? '' : label(EVENTS.goroutine[i]);
  const detail = EVENTS.detail[i], p = `P${EVENTS.processor[i]}`;
  const text = {
    Spawn: () => `${causeOf(detail)} spawns ${g}`,
    Ready: () => `${g} is readied by ${causeOf(detail)}`,
    Start: () => `${g} runs, ${duration(detail)} after it became runnable`,
    Yield: () => `${g} yields`,
    Preempt: () => `${g} is preempted: ${['its slice is over', 'the world stops', 'a timer is due', 'a device is ready'][detail] ?? ''}`,
    Park: () => `${g} parks: ${DATA.reasons[detail] ?? ''}`,
    End: () => `${g} ends`,
    SyscallEnter: () => `${g} enters a system call`,
    SyscallExit: () => `${g} returns from a call, on M${detail}`,
    HandOff: () => `${g} enters a blocking call; the P is handed off`,
    Steal: () => `steals ${Math.floor(detail / 2 ** 32)} from P${detail % 2 ** 32}; ${g} is next`,
    Idle: () => 'becomes idle',
    Busy: () => `is taken by M${detail}`,
    Spin: () => 'its M searches the other Ps',
    Retake: () => 'sysmon retakes the P',
    Stop: () => 'stops with the world',
    WorldStop: () => `${g} has stopped the world`,
    WorldStart: () => `${g} starts the world`,
    Timer: () => `a timer of P${detail} is due`,
    Device: () => 'a device is ready',
    GlobalPut: () => `${g} goes to the global queue`,
    GlobalTake: () => `takes ${detail} from the global queue; ${g} is next`,
    Overflow: () => `the ring is full: ${detail} Gs go to the global queue`,
    SpanBegin: () => `${g} begins “${DATA.texts[detail]}”`,
    SpanEnd: () => `${g} ends “${DATA.texts[detail]}”`,
    Mark: () => `${g}: “${DATA.texts[detail]}”`,
  }[DATA.kinds[EVENTS.kind[i]]];
  return `${p}: ${text ? text() : DATA.kinds[EVENTS.kind[i]]}`;
}
