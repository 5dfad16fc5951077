// Events, periods and tracks in words.

const nameOfTrack = (track) => (track === NO_P ? 'without a P' : isCpu(track) ? `CPU ${track - CPUS}` : `P${track}`);
const nameOfThread = (machine) => (machine === OTHER_THREAD ? 'a thread that is not an M' : `M${machine}`);
const label = (g) => (g >= 0 ? DATA.goroutines[g][1] : '');

/** What made a G runnable, in words. `on` is the track on which the G became runnable. */
function causeOf(by, on = -1) {
  if (by >= 0) return label(by);
  if (by === BY_UNKNOWN && on === NO_P) return 'a thread that is not an M';
  const words = {
    [BY_TIMER]: 'a timer', [BY_DEVICE]: 'a device', [GAVE_WAY]: 'nobody: it gave way', [RETURNED]: 'its return from a call',
  };
  return words[by] ?? 'unknown';
}

/** A duration in nanoseconds, as text. From a microsecond on, the text has at least four digits. */
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
  const detail = EVENTS.detail[i], where = nameOfTrack(EVENTS.track[i]);
  const text = {
    Spawn: () => `${causeOf(detail, EVENTS.track[i])} spawns ${g}`,
    Ready: () => `${g} is readied by ${causeOf(detail, EVENTS.track[i])}`,
    Start: () => `${g} runs, ${duration(detail)} after it became runnable`,
    Yield: () => `${g} yields`,
    Preempt: () => `${g} is preempted: ${['its slice is over', 'the world stops', 'an urgent G runs first'][detail] ?? ''}`,
    Park: () => `${g} parks: ${DATA.reasons[detail] ?? ''}`,
    End: () => `${g} ends`,
    SyscallEnter: () => `${g} enters a system call`,
    SyscallExit: () => `${g} returns from a call, on M${detail}`,
    HandOff: () => `${g} enters a blocking call; the P is handed off`,
    Steal: () => `steals ${Math.floor(detail / 2 ** 32)} from P${detail % 2 ** 32}; ${g} is next`,
    Idle: () => 'becomes idle',
    Busy: () => `is taken by M${detail}`,
    Spin: () => 'its M searches the other Ps',
    Retake: () => 'the P is retaken from the call',
    Stop: () => 'stops with the world',
    WorldStop: () => `${g} has stopped the world`,
    WorldStart: () => `${g} starts the world`,
    Timer: () => `a timer of P${detail} is due`,
    Device: () => `the device for which ${g} waits is ready`,
    SyscallReturn: () => `${g} returns from a call on M${detail}, and finds no P`,
    Switch: () => `${g} switches to ${label(detail)}`,
    RunMachine: () => `runs M${detail}`,
    RunThread: () => 'runs a thread that is not an M',
    Halt: () => 'has nothing to run, and halts',
    Interrupt: () => `interrupt: ${DATA.texts[detail]}`,
    InterruptEnd: () => 'the interrupt handler returns',
    Raise: () => `the interrupt handler wakes ${g}`,
    Violation: () => `violates a rule: ${DATA.texts[detail]}`,
    GlobalPut: () => `${g} goes to the global queue or, if it is locked, to the locked Gs`,
    GlobalTake: () => `takes ${detail} from the global queue; ${g} is next`,
    Kick: () => `${g} goes to the tail of the ring`,
    LockThread: () => `${g} is locked to M${detail}`,
    UnlockThread: () => `${g} is no longer locked to its M`,
    UrgentPut: () => `${g} goes to the urgent queue of P${detail}`,
    Retire: () => 'goes out of use; its Gs go to the head of the global queue',
    Overflow: () => `the ring is full: ${detail} Gs go to the global queue`,
    SpanBegin: () => `${g} begins “${DATA.texts[detail]}”`,
    SpanEnd: () => `${g} ends “${DATA.texts[detail]}”`,
    Mark: () => `${g}: “${DATA.texts[detail]}”`,
  }[DATA.kinds[EVENTS.kind[i]]];
  return `${where}: ${text ? text() : DATA.kinds[EVENTS.kind[i]]}`;
}

/** Where a runnable G is, as words. */
function placeOf(g, state) {
  const p = state.queueOf[g], { length } = state.rings[p] ?? [];
  return {
    [NEXT]: `runnext of P${p}`, [RING]: `the ring of P${p}, which has ${length} ${length === 1 ? 'G' : 'Gs'}`,
    [GLOBAL]: `the global queue, which has ${state.global.length} ${state.global.length === 1 ? 'G' : 'Gs'}`, [LOCKED]: 'the locked Gs',
  }[state.place[g]];
}

/** Explains an event by the queues before and after it. */
function explain(i, history) {
  const g = EVENTS.goroutine[i] === NO_GOROUTINE ? -1 : EVENTS.goroutine[i];
  const p = EVENTS.track[i], detail = EVENTS.detail[i];
  const before = history.stateAt(i), displaced = before.next[p] ?? -1, from = g >= 0 ? placeOf(g, before) : undefined;
  const victim = detail % 2 ** 32, queued = before.rings[victim]?.length + (before.next[victim] >= 0 ? 1 : 0);
  const after = history.stateAt(i + 1), to = g >= 0 && after.state[g] === RUNNABLE ? placeOf(g, after) : undefined;
  const goes = to ? `; it goes to ${to}` : '';
  const moves = displaced >= 0 && displaced !== g && after.next[p] === g && after.place[displaced] === RING
    ? `, and ${label(displaced)} moves from there to the tail of the ring` : '';
  const text = {
    Spawn: () => `${causeOf(detail, p)} spawns ${label(g)}${goes}${moves}`,
    Ready: () => `${label(g)} is readied by ${causeOf(detail, p)}${goes}${moves}`,
    Start: () => `runs ${label(g)}, which was runnable for ${duration(detail)}${from ? `, and was in ${from.replace(/, which.*/, '')}` : ''}`,
    Steal: () => `steals ${Math.floor(detail / 2 ** 32)} of the ${queued} Gs of P${victim}; ${label(g)} runs next`,
    Idle: () => 'finds no G in any queue, and becomes idle',
    Spin: () => 'has no G of its own; its M searches the other Ps',
  }[DATA.kinds[EVENTS.kind[i]]];
  return text ? `${nameOfTrack(p)}: ${text()}` : `${describe(i)}${goes}`;
}

/** The P on which the G of period `n` ran before that period, if it was another P; otherwise -1. */
function migratedFrom(history, n) {
  const list = history.ofGoroutine.of(history.goroutine[n]);
  let index = countPeriods(list, history.from, history.from[n]) - 1;
  // Several periods may begin at the same time.
  while (list[index] !== n) index--;
  for (index--; index >= 0; index--) {
    const p = history.processor[list[index]];
    if (p !== NO_P) return p === history.processor[n] ? -1 : p;
  }
  return -1;
}

/** Describes a period, for the pointer. */
function describeSlice(history, n) {
  const g = history.goroutine[n], activity = history.activity[n];
  const p = history.processor[n], m = history.machine[n];
  if (activity === THREAD) {
    const took = duration(history.to[n] - history.from[n]);
    return `CPU ${p - CPUS} ran ${nameOfThread(m)} for ${took}\nfrom ${duration(history.from[n])}`;
  }
  const where = `${p === NO_P ? 'without a P' : `on P${p}`}${m >= 0 ? `, M${m}` : ''}`;
  const took = duration(history.to[n] - history.from[n]);
  const what = { [RUN]: 'ran', [SYSCALL]: 'in a system call', [BLOCKED]: 'blocked in a call', [SEARCH]: 'searches for work', [STOPPED]: 'stopped with the world' }[activity];
  const lines = [`${label(g)} ${what} ${took} ${where}`.trim(), `from ${duration(history.from[n])}`];
  const from = activity === RUN ? migratedFrom(history, n) : -1;
  if (from >= 0) lines.push(`migrated from P${from}`);
  const at = history.readyAt[n];
  if (!Number.isNaN(at)) {
    const parked = history.parkedAt[n];
    if (!Number.isNaN(parked)) lines.push(`before, it waited ${duration(at - parked)}: ${DATA.reasons[history.reason[n]]}`);
    const on = history.readyOn[n] >= 0 && history.by[n] !== GAVE_WAY ? `, ${nameOfTrack(history.readyOn[n])}` : '';
    lines.push(`readied by ${causeOf(history.by[n], history.readyOn[n])}${on}; runnable for ${duration(history.from[n] - at)}`);
    if (history.by[n] === BY_DEVICE && history.raisedOn[n] >= 0) {
      lines.push(`interrupt on ${nameOfTrack(history.raisedOn[n])}, ${duration(history.from[n] - history.raisedAt[n])} earlier`);
    }
    if (history.stolenFrom[n] >= 0) lines.push(`stolen from P${history.stolenFrom[n]}, ${duration(history.from[n] - history.stolenAt[n])} earlier`);
  }
  if (activity === RUN && history.end[n] < EVENTS.count) lines.push(`then ${describe(history.end[n]).replace(/^[^:]*: /, '')}`);
  if (g >= 0 && DATA.goroutines[g][2]) lines.push(DATA.goroutines[g][2]);
  return lines.join('\n');
}
