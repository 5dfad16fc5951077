// The summary: for how long the Gs of each function ran, were runnable, were in calls and waited, and why they waited.

/** The maximum number of rows that are shown. */
const MOST_ROWS = 200;

/** What Gs did with their time, in nanoseconds. */
class Times {
  constructor() {
    this.gs = 0;
    this.run = 0;
    this.runnable = 0;
    this.call = 0;
    this.wait = 0;
    /** The time for each reason of a wait. */
    this.reasons = new Map();
  }

  waited(reason, time) {
    this.wait += time;
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + time);
  }

  add(other) {
    this.gs += other.gs;
    this.run += other.run;
    this.runnable += other.runnable;
    this.call += other.call;
    for (const [reason, time] of other.reasons) this.waited(reason, time);
  }
}

/** The times of each G. */
function timesOfGoroutines(history) {
  const all = DATA.goroutines.map(() => Object.assign(new Times(), { gs: 1 }));
  for (let n = 0; n < history.count; n++) {
    const times = all[history.goroutine[n]], length = history.to[n] - history.from[n];
    if (!times) continue;
    if (history.activity[n] === RUN) times.run += length;
    if (history.activity[n] === SYSCALL || history.activity[n] === BLOCKED) times.call += length;
    const at = history.readyAt[n], parked = history.parkedAt[n];
    if (!Number.isNaN(at)) times.runnable += history.from[n] - at;
    if (!Number.isNaN(at) && !Number.isNaN(parked)) times.waited(history.reason[n], at - parked);
  }
  // The waits, and the times on run queues, that have not ended when the trace ends.
  const last = history.stateAt(EVENTS.count);
  all.forEach((times, g) => {
    const length = DURATION - last.since[g];
    if (last.state[g] === WAITING) times.waited(last.reason[g], length);
    if (last.state[g] === RUNNABLE) times.runnable += length;
  });
  return all;
}

/** The times of all Gs of each function. */
function timesOfFunctions(all) {
  const functions = new Map();
  all.forEach((times, g) => {
    const name = DATA.goroutines[g][2] || DATA.goroutines[g][1];
    if (!functions.has(name)) functions.set(name, new Times());
    functions.get(name).add(times);
  });
  return functions;
}

/** Draws the summary. With `byGoroutine`, it has a row for each G, otherwise for each function. */
function drawSummary(section, history, byGoroutine, choose) {
  const all = timesOfGoroutines(history);
  const entries = byGoroutine
    ? all.map((times, g) => ({ name: label(g), times, g }))
    : [...timesOfFunctions(all)].map(([name, times]) => ({ name, times, g: -1 }));
  entries.sort((a, b) => b.times.run - a.times.run);
  const number = (time) => `<td class="number">${time ? duration(time) : ''}</td>`;
  const rows = entries.slice(0, MOST_ROWS).map(({ name, times, g }) => {
    const reasons = [...times.reasons].filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
    const words = reasons.map(([reason, time]) => `${DATA.reasons[reason]} ${duration(time)}`).join(', ');
    return `<tr${g < 0 ? ' class="plain"' : ` data-g="${g}"`}><td>${escapeText(name)}</td>${byGoroutine ? '' : `<td class="number">${times.gs}</td>`}` +
      `${number(times.run)}${number(times.runnable)}${number(times.call)}${number(times.wait)}<td>${escapeText(words)}</td></tr>`;
  });
  section.innerHTML =
    `<p><button data-by="function" aria-selected="${!byGoroutine}">functions</button> <button data-by="goroutine" aria-selected="${byGoroutine}">Gs</button>` +
    `${entries.length > MOST_ROWS ? ` the ${MOST_ROWS} that ran longest of ${entries.length}` : ''}</p>` +
    `<table><thead><tr><th>${byGoroutine ? 'G' : 'function'}</th>${byGoroutine ? '' : '<th class="number">Gs</th>'}<th class="number">ran</th>` +
    '<th class="number">was runnable</th><th class="number">in calls</th><th class="number">waited</th><th>for</th></tr></thead>' +
    `<tbody>${rows.join('')}</tbody></table>`;
  section.onclick = (event) => {
    const by = event.target.closest('[data-by]'), row = event.target.closest('tr[data-g]');
    if (by) drawSummary(section, history, by.dataset.by === 'goroutine', choose);
    if (row) choose(Number(row.dataset.g));
  };
}
