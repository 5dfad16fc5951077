// Connects the parts of the page with the pointer, the keys and the address. The part of the address after `#` says what
// is shown, so that a copied address shows it again: `#g=17&event=500&from=0&to=2000&tab=waits&theme=dark&rows=m&gaps=short`.

const element = (id) => document.getElementById(id);
const history_ = new History();

const dark = matchMedia('(prefers-color-scheme: dark)').matches;
document.documentElement.dataset.theme = dark ? 'dark' : 'light';

let position = 0;
let tab = 'moment';
let playing = 0;

const timeline = new Timeline(element('timeline'), history_, () => saveSoon());
const moment = new Moment(element('moment'), timeline);

// The state, the timeline and the tables that are shown.

/** Shows the state after `to` events, and moves the timeline there if it shows another time. */
function goTo(to, isToMove = true) {
  position = Math.max(0, Math.min(to, EVENTS.count));
  timeline.cursor = position > 0 ? EVENTS.when[position - 1] : 0;
  if (isToMove) timeline.reveal(timeline.cursor);
  else timeline.draw();
  element('event').textContent = position > 0
    ? `${position} of ${EVENTS.count}, ${duration(timeline.cursor)} (clock: ${DATA.start + timeline.cursor} ns), ${explain(position - 1, history_)}`
    : `before the first of ${EVENTS.count} events`;
  drawMoment();
  saveSoon();
}

function drawMoment() {
  if (tab !== 'moment') return;
  const g = position > 0 ? EVENTS.goroutine[position - 1] : NO_GOROUTINE;
  timeline.isDark = document.documentElement.dataset.theme === 'dark';
  moment.draw(history_.stateAt(position), g === NO_GOROUTINE ? -1 : g);
}

/** Shows in the panel what is known about the period `n`. An empty panel is hidden. */
function showSlice(n) {
  element('slice').hidden = n < 0;
  element('slice').textContent = n < 0 ? '' : describeSlice(history_, n);
}

function choose(g) {
  timeline.chosen = g;
  if (g < 0) showSlice(-1);
  timeline.draw();
  drawMoment();
  saveSoon();
}

/** Shows a period of time with some room around it, and the state at its end. */
function showPeriod(g, from, to) {
  choose(g);
  const room = Math.max(to - from, 50) * 0.4;
  timeline.show(from - room, to + room);
  goTo(countUpTo(EVENTS.when, to));
}

/** How many events before a violation are shown together with it. */
const BEFORE_VIOLATION = 80;

/** Shows the violated rule, the events that led to it, and the state after it. */
function showViolation() {
  if (DATA.violation < 0) return;
  const room = EVENTS.when[DATA.violation] - EVENTS.when[Math.max(0, DATA.violation - BEFORE_VIOLATION)];
  timeline.show(EVENTS.when[DATA.violation] - Math.max(room, 100), EVENTS.when[DATA.violation]);
  goTo(DATA.violation + 1);
}

const TABS = ['moment', 'summary', 'waits', 'latency'];

function showTab(name) {
  tab = name;
  for (const section of TABS) element(section).hidden = section !== name;
  for (const button of document.querySelectorAll('nav [data-tab]')) {
    button.setAttribute('aria-selected', button.dataset.tab === name);
  }
  // The tables are made when they are first shown, because counting a million latencies takes a while.
  if (name === 'waits' && !element('waits').firstChild) {
    drawWaits(element('waits'), history_, ({ g, from, to }) => showPeriod(g, from, to));
  }
  if (name === 'summary' && !element('summary').firstChild) {
    drawSummary(element('summary'), history_, false, (g) => choose(g));
  }
  if (name === 'latency' && !element('latency').firstChild) drawLatencies(element('latency'), history_);
  drawMoment();
  saveSoon();
}

function showRows(byMachine) {
  timeline.byMachine = byMachine;
  element('rows').textContent = byMachine ? 'Ms' : 'Ps';
  timeline.makeRows();
  saveSoon();
}

function showGaps(areShort) {
  timeline.showGaps(areShort);
  element('gaps').setAttribute('aria-selected', areShort);
}

function showTheme(name) {
  document.documentElement.dataset.theme = name;
  timeline.draw();
  drawMoment();
  saveSoon();
}

const otherTheme = () => (document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');

/** Shows the next or previous one of the longest waits, if their table is shown. */
function nextWait(direction) {
  if (tab !== 'waits') return;
  const rows = [...document.querySelectorAll('#waits tr[data-row]')];
  const row = rows[Math.max(0, Math.min(rows.length - 1, rows.findIndex((one) => one.matches('.selected')) + direction))];
  row?.click();
  row?.scrollIntoView({ block: 'nearest' });
}

function play(isPlaying) {
  clearInterval(playing);
  playing = 0;
  if (isPlaying && position < EVENTS.count) {
    playing = setInterval(() => {
      goTo(position + 1);
      if (position >= EVENTS.count) play(false);
    }, 1000 / Number(element('speed').value));
  }
  element('play').textContent = playing ? 'stop' : 'play';
}

/** Plays faster or more slowly: chooses another of the speeds. */
function changeSpeed(by) {
  const { options, selectedIndex } = element('speed');
  element('speed').selectedIndex = Math.max(0, Math.min(options.length - 1, selectedIndex + by));
  if (playing) play(true);
}

/** Shows the state at the beginning of the period `n`, and the row of the period. */
function goToPeriod(n) {
  goTo(countUpTo(EVENTS.when, history_.from[n]));
  timeline.revealRow(n);
}

/** Goes to the next or previous period of the chosen G. */
function nextSlice(direction) {
  if (timeline.chosen < 0) return;
  const list = history_.ofGoroutine.of(timeline.chosen), { from } = history_;
  const begun = countPeriods(list, from, timeline.cursor);
  // Times are whole numbers of nanoseconds, so `cursor - 1` leaves out the periods that begin at the cursor.
  const n = direction > 0 ? list[begun] : list[countPeriods(list, from, timeline.cursor - 1) - 1];
  if (n !== undefined) goToPeriod(n);
}

/**
 * After how many events the page opens: after the first steal or, if there is none, after the first event at which the most
 * Gs are runnable.
 */
function firstPosition() {
  const steal = EVENTS.kind.indexOf(KIND.Steal);
  if (steal >= 0) return steal + 1;
  let fullest = -1;
  for (let i = 0; i < EVENTS.count; i++) {
    if (fullest < 0 || history_.runnable.get(i) > history_.runnable.get(fullest)) fullest = i;
  }
  return fullest + 1;
}

/** Shows what this part of an address says. All else, except for the theme, is as in a page that was just opened. */
function showAddress(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ''));
  const number = (name) => Number(given.get(name)) || 0;
  play(false);
  if (given.has('theme')) document.documentElement.dataset.theme = given.get('theme');
  const byMachine = given.get('rows') === 'm';
  if (byMachine !== timeline.byMachine) showRows(byMachine);
  if (given.has('gaps') !== Boolean(timeline.gaps)) showGaps(given.has('gaps'));
  timeline.chosen = given.has('g') ? DATA.goroutines.findIndex(([id]) => id === number('g')) : -1;
  if (given.has('from')) timeline.show(number('from'), number('to'));
  else timeline.show(0, DURATION);
  showTab(TABS.includes(given.get('tab')) ? given.get('tab') : 'moment');
  if (given.has('event') || DATA.violation < 0) {
    goTo(given.has('event') ? number('event') : firstPosition(), !given.has('from'));
  }
  else showViolation();
}

let saving = 0;
function saveSoon() {
  clearTimeout(saving);
  saving = setTimeout(() => {
    const shown = new URLSearchParams();
    if (timeline.chosen >= 0) shown.set('g', DATA.goroutines[timeline.chosen][0]);
    shown.set('event', position);
    shown.set('from', Math.round(timeline.from));
    shown.set('to', Math.round(timeline.to));
    shown.set('tab', tab);
    shown.set('theme', document.documentElement.dataset.theme);
    if (timeline.byMachine) shown.set('rows', 'm');
    if (timeline.gaps) shown.set('gaps', 'short');
    try {
      history.replaceState(null, '', `#${shown}`);
    } catch {
      // Some browsers do not allow a page from a file to change its address. In this case the address stays as it is.
    }
  }, 300);
}

// Search.

/** Returns the Gs whose number is `text` or whose name or function contains `text`. A G with that number comes first. */
function search(text) {
  const words = text.trim().toLowerCase();
  if (!words) return [];
  const number = Number(words.replace(/^g/, ''));
  const found = [];
  DATA.goroutines.forEach(([id, name, function_], g) => {
    if (id === number) found.unshift(g);
    else if (name.toLowerCase().includes(words) || function_.toLowerCase().includes(words)) found.push(g);
  });
  return found;
}

/** The index of the search result that the key Enter chooses. */
let hit = 0;

function showHits() {
  hit = 0;
  const hits = search(element('search').value);
  element('hits').innerHTML = hits.slice(0, 40)
    .map((g) => `<li data-g="${g}">${escapeText(label(g))} <small>${escapeText(DATA.goroutines[g][2])}</small></li>`)
    .join('') + (hits.length > 40 ? `<li>and ${hits.length - 40} more</li>` : '');
  element('hits').hidden = hits.length === 0;
  moveHit(0);
}

function moveHit(by) {
  const all = [...document.querySelectorAll('#hits [data-g]')];
  hit = Math.max(0, Math.min(all.length - 1, hit + by));
  all.forEach((one, number) => one.classList.toggle('selected', number === hit));
  all[hit]?.scrollIntoView({ block: 'nearest' });
}

function takeHit(g) {
  element('hits').hidden = true;
  choose(g);
  const first = history_.ofGoroutine.of(g)[0];
  if (first !== undefined) goToPeriod(first);
  element('timeline').focus();
}

element('search').addEventListener('input', showHits);
element('search').addEventListener('keydown', (event) => {
  if (event.key === 'Enter') {
    const g = search(element('search').value)[hit];
    if (g !== undefined) takeHit(g);
  } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    moveHit(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Escape') {
    element('hits').hidden = true;
    element('timeline').focus();
  }
  event.stopPropagation();
});
element('hits').addEventListener('click', (event) => {
  const hit = event.target.closest('[data-g]');
  if (hit) takeHit(Number(hit.dataset.g));
});

// The pointer.

{
  const canvas = element('timeline'), tip = element('tip');
  let drag = null;
  canvas.addEventListener('wheel', (event) => {
    if (event.offsetX < LEFT && timeline.isHigher) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan((event.deltaX || event.deltaY) / 800);
    else timeline.zoom(1.0016 ** event.deltaY, event.offsetX);
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = {
      x: event.offsetX, y: event.offsetY, from: timeline.from, to: timeline.to, scroll: timeline.scroll, isOverview: event.offsetY < OVERVIEW, moved: false,
    };
    if (drag.isOverview) moveOverview(event.offsetX);
  });
  const moveOverview = (x) => {
    const when = ((x - LEFT) / (timeline.width - LEFT)) * DURATION, half = (timeline.to - timeline.from) / 2;
    timeline.show(when - half, when + half);
  };
  canvas.addEventListener('pointermove', (event) => {
    if (drag?.isOverview) return moveOverview(event.offsetX);
    if (drag) {
      drag.moved ||= Math.max(Math.abs(event.offsetX - drag.x), Math.abs(event.offsetY - drag.y)) > 3;
      if (drag.moved) {
        const by = ((drag.x - event.offsetX) / (timeline.width - LEFT)) * (drag.to - drag.from);
        const from = Math.max(0, Math.min(drag.from + by, DURATION - (drag.to - drag.from)));
        timeline.show(from, from + (drag.to - drag.from));
        timeline.view.scrollTop = drag.scroll + drag.y - event.offsetY;
      }
      tip.hidden = true;
      return undefined;
    }
    const hint = timeline.hintAt(event.offsetX, event.offsetY);
    timeline.point(timeline.sliceAt(event.offsetX, event.offsetY));
    tip.hidden = !hint;
    if (hint) {
      tip.textContent = hint;
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
    }
    return undefined;
  });
  canvas.addEventListener('pointerup', (event) => {
    const wasClick = drag && !drag.moved && !drag.isOverview;
    drag = null;
    if (!wasClick || event.offsetY < OVERVIEW) return;
    const n = timeline.sliceAt(event.offsetX, event.offsetY);
    choose(n >= 0 ? history_.goroutine[n] : -1);
    showSlice(n);
    goTo(countUpTo(EVENTS.when, timeline.when(event.offsetX)));
  });
  canvas.addEventListener('pointerleave', () => {
    tip.hidden = true;
    timeline.point(-1);
  });
  timeline.view.addEventListener('scroll', () => (tip.hidden = true));
}
element('moment').addEventListener('click', (event) => {
  const circle = event.target.closest('[data-g]');
  if (circle) choose(Number(circle.dataset.g));
});

// Buttons and keys.

const KEYS = {
  ArrowLeft: () => goTo(position - 1),
  ArrowRight: () => goTo(position + 1),
  ArrowDown: () => nextWait(1),
  ArrowUp: () => nextWait(-1),
  ' ': () => play(!playing),
  '<': () => changeSpeed(-1),
  '>': () => changeSpeed(1),
  w: () => timeline.zoom(0.7), '+': () => timeline.zoom(0.7),
  s: () => timeline.zoom(1 / 0.7), '-': () => timeline.zoom(1 / 0.7),
  a: () => timeline.pan(-0.15),
  d: () => timeline.pan(0.15),
  f: () => timeline.show(0, DURATION),
  n: () => nextSlice(1),
  p: () => nextSlice(-1),
  m: () => showRows(!timeline.byMachine),
  g: () => showGaps(!timeline.gaps),
  t: () => showTheme(otherTheme()),
  v: () => showViolation(),
  '/': () => {
    element('search').focus();
    element('search').select();
  },
  '?': () => element('keys').showModal(),
  1: () => showTab('moment'),
  2: () => showTab('summary'),
  3: () => showTab('waits'),
  4: () => showTab('latency'),
  Escape: () => choose(-1),
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || element('keys').open) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
for (const [id, key] of [['back', 'ArrowLeft'], ['forward', 'ArrowRight'], ['play', ' '], ['fit', 'f'], ['theme', 't'], ['rows', 'm'], ['gaps', 'g'], ['help', '?']]) {
  element(id).addEventListener('click', KEYS[key]);
}
element('speed').addEventListener('change', () => changeSpeed(0));
element('speed').addEventListener('keydown', (event) => event.stopPropagation());
element('keys').addEventListener('click', () => element('keys').close());
for (const button of document.querySelectorAll('nav [data-tab]')) {
  button.addEventListener('click', () => showTab(button.dataset.tab));
}
window.addEventListener('resize', () => drawMoment());
// A link to a moment was opened in this page. `saveSoon` does not cause this event.
window.addEventListener('hashchange', (event) => showAddress(new URL(event.newURL).hash));

// The first picture.

element('title').textContent = document.title;
element('facts').innerHTML =
  [[DATA.processors, 'P'], [DATA.cpus, 'CPU'], [DATA.goroutines.length, 'G'], [EVENTS.count, 'event']]
    .filter(([count]) => count).map(([count, name]) => `${count} ${name}${count === 1 ? '' : 's'}`).join(', ') +
  ` in ${duration(DURATION)}` +
  (DATA.lost ? `, <span class="lost">${DATA.lost} events lost</span>` : '');
if (DATA.violation >= 0) {
  element('violation').hidden = false;
  element('violation').textContent = `Violated rule: ${DATA.texts[EVENTS.detail[DATA.violation]]}`;
  element('violation').addEventListener('click', showViolation);
}
showAddress(location.hash);
