// The state of the scheduler between two events. `src/replay.rs` replays the events in the same way for the JSON file.

/** Decodes base64. */
function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const decoded = atob(text), bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}

/** The columns of the events: see `columns` in `src/page.rs`. */
const EVENTS = (() => {
  const bytes = bytesOf(DATA.columns).buffer;
  delete DATA.columns;
  const count = DATA.count;
  return {
    count,
    when: new Float64Array(bytes, 0, count),
    detail: new Float64Array(bytes, 8 * count, count),
    goroutine: new Uint32Array(bytes, 16 * count, count),
    track: new Uint16Array(bytes, 20 * count, count),
    kind: new Uint8Array(bytes, 22 * count, count),
  };
})();

/** The numbers of the kinds of events, by name. */
const KIND = Object.fromEntries(DATA.kinds.map((name, number) => [name, number]));

const NO_GOROUTINE = 0xffffffff;
const DURATION = EVENTS.count ? EVENTS.when[EVENTS.count - 1] : 0;

/**
 * What a P does during a period. `BLOCKED` is for a period in which an M without a P is blocked in a call, and `THREAD`
 * for a period in which a CPU runs a thread.
 */
const IDLE = 0, RUN = 1, SYSCALL = 2, SCHEDULE = 3, SEARCH = 4, STOPPED = 5, BLOCKED = 6, THREAD = 7;

/** The tracks of Ps have numbers below `CPUS`, those of CPUs begin there, and `NO_P` is for callers without a P. */
const CPUS = 0x8000, NO_P = 0xffff;
const isCpu = (track) => track >= CPUS && track !== NO_P;

/** What a CPU runs, if it is not an M: nothing, or a thread that is not an M. */
const HALTS = -1, OTHER_THREAD = -2;

/** What a G does. */
const UNKNOWN = 0, RUNNABLE = 1, RUNNING = 2, WAITING = 3, IN_CALL = 4, DEAD = 5;

/** The detail of a `Preempt` if the slice of the G is over. */
const BY_SLICE = 0;
/** In which queue a runnable G is. `HANDED` means in no queue that is shown: the G is about to run, or in the urgent queue. */
const NOWHERE = 0, NEXT = 1, RING = 2, GLOBAL = 3, HANDED = 4, LOCKED = 5;

/** Why a G became runnable, if no other G made it runnable. */
const BY_UNKNOWN = -1, BY_TIMER = -2, BY_DEVICE = -3, GAVE_WAY = -4, RETURNED = -5;

/** A queue of Gs that may be long. Taking the first G moves none of the others. */
class Queue {
  constructor(items = []) {
    this.items = items;
    /** The index of the first G. */
    this.head = 0;
  }

  get length() {
    return this.items.length - this.head;
  }

  push(g) {
    this.items.push(g);
  }

  /** Puts Gs before all others. */
  pushFirst(gs) {
    this.items = [...gs, ...this];
    this.head = 0;
  }

  /** Removes the first Gs, and returns them. */
  take(count) {
    const taken = this.slice(0, count);
    this.head += taken.length;
    if (this.head > 1024 && this.head > this.items.length / 2) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return taken;
  }

  remove(g) {
    const index = this.items.indexOf(g, this.head);
    if (index < 0) return;
    // A G that is removed is usually near the front. So the Gs before it are moved, and not those behind it.
    this.items.copyWithin(this.head + 1, this.head, index);
    this.take(1);
  }

  slice(from, to) {
    return this.items.slice(this.head + from, Math.min(this.head + to, this.items.length));
  }

  clone() {
    return new Queue(this.items.slice(this.head));
  }

  [Symbol.iterator]() {
    return this.slice(0, this.length)[Symbol.iterator]();
  }
}

/** The state of the scheduler between two events. It contains only what the picture of a moment and the next steps need. */
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
    /** What each CPU runs: an M, `HALTS` or `OTHER_THREAD`; since when; and the interrupt that it handles, or -1. */
    this.thread = new Int32Array(DATA.cpus).fill(HALTS);
    this.threadSince = new Float64Array(DATA.cpus);
    this.interrupt = new Int32Array(DATA.cpus).fill(-1);
    this.interruptSince = new Float64Array(DATA.cpus);
    this.activity = new Uint8Array(ps);
    this.runs = new Int32Array(ps).fill(-1);
    this.machine = new Int32Array(ps).fill(-1);
    this.busySince = new Float64Array(ps);
    this.known = new Uint8Array(ps);
    this.next = new Int32Array(ps).fill(-1);
    this.rings = Array.from({ length: ps }, () => []);
    this.global = new Queue();
    /** The runnable Gs that are locked to their Ms, and whether each G is locked. */
    this.locked = new Queue();
    this.isLocked = new Uint8Array(gs);
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
      else if (value instanceof Queue) copy[name] = value.clone();
      else if (name === 'rings') copy[name] = value.map((ring) => ring.slice());
      else copy[name] = Array.isArray(value) ? value.slice() : value;
    }
    return copy;
  }

  /** The size of the columns and queues, in bytes. */
  bytes() {
    const columns = Object.values(this).filter(ArrayBuffer.isView).reduce((sum, column) => sum + column.byteLength, 0);
    return columns + this.rings.reduce((sum, ring) => sum + 8 * ring.length, 8 * (this.global.items.length + this.locked.items.length));
  }

  /** Replays the next event. If `sink` is given, its methods are told what happens to each G, and which periods end. */
  step(sink) {
    const i = this.position++;
    const when = EVENTS.when[i], detail = EVENTS.detail[i], p = EVENTS.track[i], kind = EVENTS.kind[i];
    const g = EVENTS.goroutine[i] === NO_GOROUTINE ? -1 : EVENTS.goroutine[i];
    if (isCpu(p)) return this.stepCpu(p - CPUS, kind, g, when, detail, i, sink);
    if (p !== NO_P) this.assume(kind, p, g);
    switch (kind) {
      case KIND.Spawn:
      case KIND.Ready: {
        this.unqueue(g);
        if (kind === KIND.Spawn) sink?.parked(g, NaN);
        this.setRunnable(g, when, p, detail, sink);
        if (p === NO_P) this.putGlobal(g);
        else if (detail === BY_TIMER || detail === BY_DEVICE) this.place[g] = HANDED;
        else this.putNext(p, g);
        break;
      }
      case KIND.SyscallReturn:
        this.unblock(g, when, sink);
        this.setRunnable(g, when, p, RETURNED, sink);
        sink?.parked(g, NaN);
        this.putGlobal(g);
        break;
      case KIND.Switch:
        if (this.state[detail] === WAITING) sink?.wait(detail, this.since[detail], when, this.reason[detail], g);
        this.unqueue(detail);
        this.state[g] = WAITING;
        this.since[g] = when;
        sink?.parked(g, when);
        this.reason[g] = DATA.coroutine;
        this.change(p, RUN, detail, when, i, sink);
        this.state[detail] = RUNNING;
        this.since[detail] = when;
        break;
      case KIND.Start: {
        const at = Math.max(0, when - detail);
        this.unblock(g, at, sink);
        if (this.state[g] !== RUNNABLE) {
          if (this.state[g] === WAITING) sink?.wait(g, Math.min(this.since[g], at), at, this.reason[g], BY_UNKNOWN);
          this.setRunnable(g, at, -1, BY_UNKNOWN, sink);
        }
        this.unqueue(g);
        this.change(p, RUN, g, when, i, sink);
        sink?.start(g, p, this.reason[g]);
        this.state[g] = RUNNING;
        this.since[g] = when;
        break;
      }
      case KIND.Yield:
      case KIND.Preempt: {
        this.change(p, SCHEDULE, -1, when, i, sink);
        sink?.parked(g, NaN);
        this.setRunnable(g, when, p, GAVE_WAY, sink);
        if (kind === KIND.Yield) this.putLast(p, g);
        else if (detail === BY_SLICE) this.place[g] = HANDED;
        else this.putNext(p, g);
        break;
      }
      case KIND.Park:
        this.change(p, SCHEDULE, -1, when, i, sink);
        this.state[g] = WAITING;
        this.since[g] = when;
        sink?.parked(g, when);
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
        sink?.regained(p);
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
        sink?.stolen(g, victim, when);
        for (const stolen of (this.rings[victim] ?? []).splice(0, count - 1)) {
          this.place[stolen] = NOWHERE;
          this.putLast(p, stolen);
          sink?.stolen(stolen, victim, when);
        }
        break;
      }
      case KIND.GlobalPut:
        this.unqueue(g);
        this.putGlobal(g);
        break;
      case KIND.GlobalTake:
        this.unqueue(g);
        this.place[g] = HANDED;
        for (const taken of this.global.take(detail - 1)) {
          this.place[taken] = NOWHERE;
          this.putLast(p, taken);
        }
        break;
      case KIND.UrgentPut:
        this.unqueue(g);
        this.place[g] = HANDED;
        break;
      case KIND.Kick:
        this.unqueue(g);
        this.putLast(p, g);
        break;
      case KIND.LockThread:
      case KIND.UnlockThread:
        this.isLocked[g] = kind === KIND.LockThread ? 1 : 0;
        break;
      case KIND.Overflow:
        this.rings[p].splice(0, detail).forEach((moved) => this.putGlobal(moved));
        break;
      case KIND.Retire:
        this.retire(p);
      // falls through
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

  /** Replays an event of a CPU. */
  stepCpu(cpu, kind, g, when, detail, i, sink) {
    switch (kind) {
      case KIND.RunMachine:
      case KIND.RunThread:
      case KIND.Halt:
        this.changeThread(cpu, kind === KIND.RunMachine ? detail : kind === KIND.Halt ? HALTS : OTHER_THREAD, when, i, sink);
        break;
      case KIND.Interrupt:
        this.interrupt[cpu] = detail;
        this.interruptSince[cpu] = when;
        break;
      case KIND.InterruptEnd:
        this.endInterrupt(cpu, when, sink);
        break;
      case KIND.Raise:
        sink?.raised(g, when, CPUS + cpu);
        break;
      default:
    }
  }

  changeThread(cpu, thread, when, i, sink) {
    const old = this.thread[cpu];
    if (old !== HALTS) sink?.slice(CPUS + cpu, old, THREAD, -1, this.threadSince[cpu], when, i);
    this.thread[cpu] = thread;
    this.threadSince[cpu] = when;
  }

  endInterrupt(cpu, when, sink) {
    if (this.interrupt[cpu] >= 0) sink?.interrupted(cpu, this.interrupt[cpu], this.interruptSince[cpu], when);
    this.interrupt[cpu] = -1;
  }

  /** Called before an event of a P is replayed. If a G leaves the P in the first event of the P, the P ran this G before. */
  assume(kind, p, g) {
    if (this.known[p]) return;
    this.known[p] = 1;
    const leaves = [KIND.Yield, KIND.Preempt, KIND.Park, KIND.End, KIND.SyscallEnter, KIND.HandOff, KIND.Switch];
    if (g >= 0 && leaves.includes(kind)) {
      this.activity[p] = RUN;
      this.runs[p] = g;
      this.state[g] = RUNNING;
    }
  }

  setRunnable(g, when, p, by, sink) {
    this.state[g] = RUNNABLE;
    this.since[g] = when;
    sink?.readied(g, when, p, by);
  }

  /** Puts a G into `runnext`. The G that was there goes to the tail of the ring. */
  putNext(p, g) {
    if (this.isLocked[g]) return this.putLocked(g);
    const kicked = this.next[p];
    this.next[p] = g;
    this.place[g] = NEXT;
    this.queueOf[g] = p;
    if (kicked >= 0 && kicked !== g) this.putLast(p, kicked);
  }

  /** Puts a G on the list of locked Gs. A locked G goes to no queue of a P and not to the global queue. */
  putLocked(g) {
    this.unqueue(g);
    this.place[g] = LOCKED;
    this.locked.push(g);
  }

  putGlobal(g) {
    if (this.isLocked[g]) return this.putLocked(g);
    this.place[g] = GLOBAL;
    this.global.push(g);
  }

  putLast(p, g) {
    if (this.isLocked[g]) return this.putLocked(g);
    this.place[g] = RING;
    this.queueOf[g] = p;
    this.rings[p].push(g);
  }

  /** Moves the Gs of a P to the head of the global queue. */
  retire(p) {
    const moved = [...(this.next[p] >= 0 ? [this.next[p]] : []), ...this.rings[p]];
    for (const g of moved) this.place[g] = GLOBAL;
    this.next[p] = -1;
    this.rings[p] = [];
    this.global.pushFirst(moved);
  }

  unqueue(g) {
    const p = this.queueOf[g];
    if (this.place[g] === NEXT && this.next[p] === g) this.next[p] = -1;
    else if (this.place[g] === GLOBAL) this.global.remove(g);
    else if (this.place[g] === LOCKED) this.locked.remove(g);
    else if (this.place[g] === RING) {
      const index = this.rings[p].indexOf(g);
      if (index >= 0) this.rings[p].splice(index, 1);
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
