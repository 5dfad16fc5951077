// Events, periods and tracks in words.

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

/** Describes a period, for the pointer. */
function describeSlice(history, n) {
  const g = history.goroutine[n], activity = history.activity[n];
  const p = history.processor[n], m = history.machine[n];
  const where = `${p === NO_P ? 'without a P' : `on P${p}`}${m >= 0 ? `, M${m}` : ''}`;
  const took = duration(history.to[n] - history.from[n]);
  const what = { [RUN]: 'ran', [SYSCALL]: 'in a system call', [BLOCKED]: 'blocked in a call', [SEARCH]: 'searches for work', [STOPPED]: 'stopped with the world' }[activity];
  const lines = [`${label(g)} ${what} ${took} ${where}`.trim(), `from ${duration(history.from[n])}`];
  const at = history.readyAt[n];
  if (!Number.isNaN(at)) {
    const parked = history.parkedAt[n];
    if (!Number.isNaN(parked)) lines.push(`before, it waited ${duration(at - parked)}: ${DATA.reasons[history.reason[n]]}`);
    const on = history.readyOn[n] >= 0 && history.by[n] !== GAVE_WAY ? ` on P${history.readyOn[n]}` : '';
    lines.push(`readied by ${causeOf(history.by[n])}${on}; runnable for ${duration(history.from[n] - at)}`);
    if (history.stolenFrom[n] >= 0) lines.push(`stolen from P${history.stolenFrom[n]}`);
  }
  if (activity === RUN && history.end[n] < EVENTS.count) lines.push(`then ${describe(history.end[n]).replace(/^P\d+: /, '')}`);
  if (g >= 0 && DATA.goroutines[g][2]) lines.push(DATA.goroutines[g][2]);
  return lines.join('\n');
}
