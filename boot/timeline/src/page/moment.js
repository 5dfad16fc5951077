// Draws the state at one moment, as Go's documents draw it: Gs are circles, Ms triangles, Ps boxes.

/** The radius of a G, and the distance between the centers of two neighbors, in pixels. */
const R = 19, PITCH = 44;
/** The width of a P with the space around it. */
const CELL = 312;
/** The maximum number of Gs of a P's ring that are drawn. */
const SHOWN = 9;

const escapeText = (text) => String(text).replace(/[&<"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '"': '&quot;' })[character]);

class Moment {
  constructor(section, timeline) {
    this.section = section;
    this.timeline = timeline;
    this.hasLocked = EVENTS.kind.includes(KIND.LockThread);
  }

  /** Draws the state before the event at `state.position`; `now` is the G of the event before that one. */
  draw(state, now) {
    this.now = now;
    // If the window is wide (as on a projector) and all Ps still fit next to each other, the picture is enlarged.
    const room = this.section.clientWidth - 24;
    const scale = room >= 1450 && DATA.processors * CELL * 1.25 <= room ? 1.25 : 1;
    const width = Math.max(CELL + 16, room / scale);
    const parts = [];
    let y = this.drawQueue(parts, 'global run queue', state.global, 8, 8, width - 16);
    if (this.hasLocked) y = this.drawQueue(parts, 'runnable locked Gs', state.locked, 8, y + 10, width - 16);
    y = this.drawProcessors(parts, state, y + 10, width);
    y = this.drawWaiting(parts, state, y + 10, width);
    this.section.innerHTML = `<svg width="${width * scale}" height="${(y + 8) * scale}" viewBox="0 0 ${width} ${y + 8}" role="img" aria-label="the scheduler at this moment">${parts.join('')}</svg>`;
  }

  /** Draws a G. `place` names the queue or the P in which it is. */
  goroutine(parts, g, x, y, place = '', note = '') {
    const isNow = g === this.now ? ' now' : '';
    const isDim = this.timeline.chosen >= 0 && this.timeline.chosen !== g;
    const title = escapeText(`${label(g)}${note ? `: ${note}` : ''}`);
    parts.push(
      `<g class="goroutine${isNow}${isDim ? ' pale' : ''}" data-g="${g}" data-place="${escapeText(place)}"><title>${title}</title>` +
      `<circle cx="${x}" cy="${y}" r="${R}" fill="${this.timeline.color(g, isDim)}"/>` +
      `<text x="${x}" y="${y + 5}" font-size="${DATA.goroutines[g][0] > 9999 ? 11 : 14}">${DATA.goroutines[g][0]}</text></g>`,
    );
  }

  text(parts, x, y, text, isDim = false) {
    parts.push(`<text x="${x}" y="${y}"${isDim ? ' class="dim"' : ''}>${escapeText(text)}</text>`);
  }

  machine(parts, x, y, number) {
    parts.push(`<path class="machine" d="M${x} ${y - 20} L${x + 22} ${y + 16} L${x - 22} ${y + 16} Z"/>`);
    parts.push(`<text x="${x}" y="${y + 12}" text-anchor="middle" font-size="13">M${number}</text>`);
  }

  /** Draws a queue as a row of Gs, the first one on the left. Returns the y coordinate of the row's lower edge. */
  drawQueue(parts, name, queue, x, y, width) {
    parts.push(`<rect class="box" x="${x}" y="${y}" width="${width}" height="52" rx="6"/>`);
    this.text(parts, x + 10, y + 31, `${name}: ${queue.length}`, true);
    const left = x + 190, room = Math.max(1, Math.floor((width - 240) / PITCH));
    queue.slice(0, room).forEach((g, index) => this.goroutine(parts, g, left + index * PITCH, y + 26, name));
    if (queue.length > room) this.text(parts, left + room * PITCH - 12, y + 31, `+ ${queue.length - room}`);
    return y + 52;
  }

  drawProcessors(parts, state, top, width) {
    const height = 168, most = Math.max(1, Math.floor((width - 8) / CELL));
    // As few rows as possible, each as full as the others, over the whole width.
    const rows = Math.max(1, Math.ceil(DATA.processors / most)), columns = Math.max(1, Math.ceil(DATA.processors / rows));
    const cell = Math.floor((width - 8) / columns);
    for (let p = 0; p < DATA.processors; p++) {
      const x = 8 + (p % columns) * cell, y = top + Math.floor(p / columns) * (height + 8);
      this.drawProcessor(parts, state, p, x, y, cell - 10, height);
    }
    return top + Math.ceil(DATA.processors / columns) * (height + 8);
  }

  drawProcessor(parts, state, p, x, y, width, height) {
    const activity = state.activity[p];
    const words = ['idle', 'runs', 'in a system call', 'picks a G', 'searches for work', 'stopped with the world'];
    const isOff = activity === IDLE || activity === STOPPED;
    parts.push(`<rect class="processor${isOff ? ' off' : ''}" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`);
    this.text(parts, x + 10, y + 22, `P${p}`);
    this.text(parts, x + 44, y + 22, words[activity], true);
    const cpu = state.machine[p] >= 0 ? state.thread.indexOf(state.machine[p]) : -1;
    if (cpu >= 0) parts.push(`<text class="dim" x="${x + width - 10}" y="${y + 22}" text-anchor="end">CPU ${cpu}</text>`);
    if (state.machine[p] >= 0) this.machine(parts, x + 36, y + 58, state.machine[p]);
    if (state.runs[p] >= 0) {
      this.goroutine(parts, state.runs[p], x + 86, y + 58, `P${p}`);
      this.text(parts, x + 112, y + 63, this.fitting(DATA.goroutines[state.runs[p]][1].replace(/^G\d+ ?/, ''), width - 118));
    }
    parts.push(`<rect class="slot" x="${x + 12}" y="${y + 84}" width="48" height="48" rx="6"/>`);
    if (state.next[p] >= 0) this.goroutine(parts, state.next[p], x + 36, y + 108, `runnext ${p}`);
    this.text(parts, x + 12, y + 152, 'runnext', true);
    const ring = state.rings[p], room = Math.min(SHOWN, Math.floor((width - 80) / PITCH));
    ring.slice(0, room).forEach((g, index) => this.goroutine(parts, g, x + 98 + index * PITCH, y + 108, `ring ${p}`));
    this.text(parts, x + 80, y + 152, ring.length > room ? `ring: ${ring.length}, the first ${room}` : `ring: ${ring.length}`, true);
  }

  fitting(text, width) {
    const most = Math.floor(width / 8);
    return text.length > most ? `${text.slice(0, Math.max(0, most - 1))}…` : text;
  }

  /** Draws the Gs that wait, by reason; the Gs that are about to run; the Gs that are blocked with their Ms; the idle Ms. */
  drawWaiting(parts, state, top, width) {
    const groups = new Map();
    const add = (name, g) => groups.set(name, [...(groups.get(name) ?? []), g]);
    const counts = new Map();
    for (let g = 0; g < state.state.length; g++) {
      let name;
      if (state.state[g] === WAITING) name = DATA.reasons[state.reason[g]];
      else if (state.state[g] === RUNNABLE && (state.place[g] === HANDED || state.place[g] === NOWHERE)) name = 'about to run';
      else continue;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      // At most 64 Gs of a group are drawn. The others are only counted.
      if (count <= 64) add(name, g);
    }
    let y = top;
    for (const [name, list] of groups) {
      const left = 260, room = Math.max(1, Math.floor((width - left - 60) / PITCH));
      this.text(parts, 12, y + 28, `${name === 'about to run' ? '' : 'waits: '}${name}: ${counts.get(name)}`, true);
      list.slice(0, room).forEach((g, index) => this.goroutine(parts, g, left + index * PITCH, y + 24, name, duration(this.timeline.cursor - state.since[g])));
      if (counts.get(name) > room) this.text(parts, left + room * PITCH - 12, y + 29, `+ ${counts.get(name) - room}`);
      y += 48;
    }
    if (state.blocked.size) {
      this.text(parts, 12, y + 28, 'blocked in calls, without a P', true);
      let x = 282;
      for (const [g, machine] of [...state.blocked].slice(0, Math.floor((width - 300) / 100))) {
        this.machine(parts, x, y + 26, machine);
        this.goroutine(parts, g, x + 44, y + 26, 'call');
        x += 100;
      }
      y += 54;
    }
    const busy = new Set([...state.machine, ...state.blocked.values()]);
    const idle = [...state.machines].filter((machine) => !busy.has(machine)).sort((a, b) => a - b);
    if (idle.length) {
      const room = Math.max(1, Math.floor((width - 300) / 56));
      this.text(parts, 12, y + 28, `idle Ms: ${idle.length}`, true);
      idle.slice(0, room).forEach((machine, index) => this.machine(parts, 282 + index * 56, y + 26, machine));
      y += 54;
    }
    return y;
  }
}
