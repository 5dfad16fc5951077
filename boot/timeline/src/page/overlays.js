// What the timeline draws over and below its rows: interrupts, events without a P, spans, stops of the world, short gaps, the
// path of a G, arrows, the violation of a rule, and the cursor.

/** How far an arrow within a row rises above the row. */
const ARC = 12;
/** At which part of a row's height an arrow from or to another row meets it: below the names of Gs, or at an
 * interrupt. */
const ANCHOR = 0.8, INTERRUPT_ANCHOR = 0.3;

Object.assign(Timeline.prototype, {
  /** Draws the interrupts of a CPU over its threads. Draws only the first interrupt in each column of pixels. */
  drawInterrupts({ from, to, name }, number) {
    const { context: c } = this;
    const y = this.y(number), height = Math.max(2, this.row * 0.45);
    if (!this.isInView(y, height)) return;
    c.fillStyle = this.style('--interrupt');
    for (let index = countUpTo(to, this.from); index < from.length && from[index] <= this.to;) {
      const left = Math.max(LEFT, this.x(from[index])), right = this.x(to[index]), width = Math.max(2, right - left);
      c.fillRect(left, y, width, height);
      if (width > 3 * FONT && height >= FONT) {
        c.save();
        c.beginPath();
        c.rect(left, y, width, height);
        c.clip();
        c.fillStyle = this.style('--back');
        c.fillText(DATA.texts[name[index]], left + 3, y + height / 2 + 1);
        c.restore();
      }
      index = Math.max(index + 1, countOnwards(to, this.when(left + 2), index));
    }
  },

  /** Draws a tick for each event of a caller without a P. */
  drawOutside() {
    if (this.outsideRow < 0) return;
    const { context: c, history } = this;
    const y = this.y(this.outsideRow);
    if (!this.isInView(y, this.row)) return;
    for (let index = countUpTo(this.outsideWhen, this.from - 1); this.outsideWhen[index] <= this.to;) {
      const i = history.outside[index], x = Math.round(this.x(EVENTS.when[i])), g = EVENTS.goroutine[i];
      c.fillStyle = g === NO_GOROUTINE ? this.style('--front') : this.color(g, this.chosen >= 0 && g !== this.chosen);
      c.fillRect(x - 1, y, 3, this.row);
      // Of the events in one column of pixels, only the first is drawn.
      index = Math.max(index + 1, countOnwards(this.outsideWhen, this.when(x + 1), index));
    }
  },

  drawSpans() {
    const { context: c } = this;
    const top = this.y(this.rows.length) + 4;
    this.spans.forEach(({ text, from, to, latest, g }, row) => {
      const y = top + row * SPAN_ROW;
      if (!this.isInView(y, SPAN_ROW)) return;
      c.globalAlpha = 0.75;
      for (let index = countUpTo(latest, this.from); index < from.length && from[index] <= this.to;) {
        const left = Math.max(LEFT, this.x(from[index])), right = Math.max(left + 2, this.x(to[index]));
        c.fillStyle = this.color(g[index], this.chosen >= 0 && g[index] !== this.chosen);
        c.fillRect(left, y, right - left, SPAN_ROW - 3);
        // This span covers those that begin later and end before its right edge. So they are skipped.
        index = Math.max(index + 1, countOnwards(latest, this.when(right), index));
      }
      c.globalAlpha = 1;
      // The name has an outline, because it is over spans of any color.
      c.lineWidth = 4;
      c.lineJoin = 'round';
      c.strokeStyle = this.style('--back');
      c.strokeText(DATA.texts[text], LEFT + 4, y + SPAN_ROW / 2);
      c.fillStyle = this.style('--front');
      c.fillText(DATA.texts[text], LEFT + 4, y + SPAN_ROW / 2);
    });
  },

  drawStops() {
    const { context: c } = this;
    c.fillStyle = this.style('--stopped');
    c.globalAlpha = 0.18;
    const { from, to } = this.history.stops;
    for (let index = countUpTo(to, this.from); index < from.length && from[index] <= this.to;) {
      const left = Math.max(LEFT, this.x(from[index])), right = Math.max(left + 1, this.x(to[index]));
      c.fillRect(left, this.top, right - left, Math.max(0, this.y(this.rows.length) - this.top));
      index = Math.max(index + 1, countOnwards(to, this.when(right), index));
    }
    c.globalAlpha = 1;
  },

  /** Draws a band over each gap that is drawn short. */
  drawGaps() {
    if (!this.gaps) return;
    const { context: c } = this;
    const { from, to } = this.gaps;
    for (let index = countUpTo(to, this.from); index < from.length && from[index] <= this.to; index++) {
      const left = Math.max(LEFT, this.x(from[index])), right = this.x(to[index]);
      c.fillStyle = this.style('--line');
      c.fillRect(left, this.top, Math.max(2, right - left), this.height);
    }
  },

  /** Draws how the chosen G moves from row to row. Dashed lines are waits; dotted lines are times on a run queue. */
  drawPath() {
    const { context: c, history } = this;
    const list = history.ofGoroutine.of(this.chosen);
    const middle = (n) => this.y(this.rowOf(n)) + this.row / 2;
    const isShown = (n) => this.rowOf(n) >= 0 && this.rowOf(n) < this.firstCpu;
    /** The period from which the next line begins. */
    let last = -1;
    c.lineWidth = 2;
    for (let index = Math.max(0, countPeriods(list, history.from, this.from) - 1); index < list.length;) {
      const n = list[index], left = this.x(history.from[n]), right = this.x(history.to[n]);
      if (isShown(n)) {
        if (last >= 0) this.drawLine(last, n, middle);
        if (left <= this.width) this.drawChosen(n, Math.max(LEFT, left), right, middle(n));
        last = n;
      }
      // The line to the first period that begins on the right of the view is drawn, too.
      if (left > this.width) break;
      // The G runs in one place at a time, so its periods also end in the order of time.
      index = Math.max(index + 1, countPeriods(list, history.to, this.when(right + 1)));
    }
    c.setLineDash([]);
  },

  /** Draws a period of the chosen G. */
  drawChosen(n, left, right, middle) {
    const { context: c } = this;
    const top = this.y(this.rowOf(n));
    c.fillStyle = this.color(this.chosen, false);
    c.fillRect(left, top, Math.max(2, right - left), this.row);
    c.strokeStyle = this.style('--front');
    c.setLineDash([]);
    if (right - left > 5) c.strokeRect(left, top + 1, right - left, this.row - 2);
    c.fillStyle = '#fff';
    const text = this.fitting(label(this.chosen), right - left - 10);
    if (text && this.row >= FONT) c.fillText(text, left + 5, middle);
  },

  /** Draws the line from a period of the chosen G to its next one. */
  drawLine(last, n, middle) {
    const { context: c, history } = this;
    c.strokeStyle = this.style('--accent');
    const waits = !Number.isNaN(history.parkedAt[n]);
    c.setLineDash(waits ? [7, 5] : [2, 4]);
    c.beginPath();
    c.moveTo(Math.max(LEFT, this.x(history.to[last])), middle(last));
    c.lineTo(Math.max(LEFT, this.x(history.from[n])), middle(n));
    c.stroke();
  },

  /** Draws the arrows that end at visible periods. If there are too many, draws only those of the chosen G. */
  drawArrows() {
    const { history } = this;
    let budget = 400;
    const visible = (list, from) => list.length ? countUpTo(from, this.to) - countUpTo(from, this.from) : 0;
    const all = this.rows.reduce((sum, row) => sum + visible(row.list, row.from), 0);
    const draw = (n) => {
      if (history.activity[n] !== RUN || budget <= 0) return;
      budget -= this.drawArrowsTo(n);
    };
    // Many arrows are drawn palely, so that the periods remain visible. Those of the G at the pointer stay strong.
    this.paleness = this.chosen >= 0 ? 1 : Math.max(0.12, Math.min(1, 24 / Math.max(1, all)));
    if (all <= 120) {
      for (const row of this.rows) {
        for (let index = countUpTo(row.from, this.from); index < row.list.length && row.from[index] <= this.to; index++) {
          if (this.chosen < 0 || this.concerns(row.list[index])) draw(row.list[index]);
        }
      }
    } else if (this.chosen >= 0) {
      const list = history.ofGoroutine.of(this.chosen);
      const next = (when) => countPeriods(list, history.from, when);
      // Of the arrows that end in the same few pixels, only the first is drawn.
      for (let index = next(this.from); index < list.length && history.from[list[index]] <= this.to;) {
        draw(list[index]);
        index = Math.max(index + 1, next(history.from[list[index]] + 2 * this.tolerance(this.x(history.from[list[index]]))));
      }
    }
  },

  concerns(n) {
    return this.history.goroutine[n] === this.chosen || this.history.by[n] === this.chosen;
  },

  /** Draws the arrows that end where the period `n` begins. Returns their number. */
  drawArrowsTo(n) {
    const arrows = arrowsTo(this.history, n);
    const row = this.rowOf(n);
    for (const { kind, at, track } of arrows) {
      const origin = this.rowOfTrack(track, at);
      if (origin < 0 || row < 0) continue;
      this.context.globalAlpha = this.isPointedAt(n) ? 1 : this.paleness;
      const styles = {
        ready: ['--arrow', []], device: ['--interrupt', []], steal: ['--search', [5, 3]], handoff: ['--blocked', [2, 3]],
        timer: ['--arrow', [1, 3]],
      };
      const [color, dash] = styles[kind];
      const from = this.y(origin) + this.row * (isCpu(track) ? INTERRUPT_ANCHOR : ANCHOR);
      this.arrow(this.x(at), from, this.x(this.history.from[n]), this.y(row) + this.row * ANCHOR, this.style(color), dash);
    }
    this.context.globalAlpha = 1;
    return arrows.length;
  },

  /** Whether the arrows to this period begin or end at the G at the pointer. */
  isPointedAt(n) {
    const { goroutine, by } = this.history, g = this.pointed >= 0 ? goroutine[this.pointed] : -1;
    return g >= 0 && (goroutine[n] === g || by[n] === g);
  },

  machineAt(processor, when) {
    const list = this.history.ofProcessor.of(processor);
    const begun = countPeriods(list, this.history.from, when);
    return begun > 0 ? this.history.machine[list[begun - 1]] : -1;
  },

  arrow(fromX, fromY, toX, toY, color, dash) {
    const { context: c } = this;
    if (toX < LEFT) return;
    c.strokeStyle = c.fillStyle = color;
    c.lineWidth = 1.5;
    c.setLineDash(dash);
    if (fromY === toY) return this.arc(fromX, toX, toY - this.row * ANCHOR);
    const bend = Math.max(10, (toX - fromX) / 2);
    c.save();
    c.beginPath();
    c.rect(LEFT, this.top, this.width, this.height);
    c.clip();
    c.beginPath();
    c.moveTo(fromX, fromY);
    c.bezierCurveTo(fromX + bend, fromY, toX - bend, toY, toX - 3, toY);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.moveTo(toX, toY);
    c.lineTo(toX - 7, toY - 4);
    c.lineTo(toX - 7, toY + 4);
    c.fill();
    c.restore();
  },

  /** Draws an arrow within a row. It is above the row, so that it does not cross the names of Gs. */
  arc(fromX, toX, y) {
    const { context: c } = this;
    c.save();
    c.beginPath();
    c.rect(LEFT, this.top - ARC, this.width, this.height);
    c.clip();
    c.beginPath();
    c.moveTo(fromX, y);
    c.bezierCurveTo(fromX, y - ARC, toX, y - ARC, toX, y - 2);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.moveTo(toX, y + 2);
    c.lineTo(toX - 4, y - 5);
    c.lineTo(toX + 4, y - 5);
    c.fill();
    c.restore();
  },

  /** Draws where the run violated a rule. */
  drawViolation() {
    if (DATA.violation < 0) return;
    const { context: c } = this;
    const when = EVENTS.when[DATA.violation];
    if (when < this.from || when > this.to) return;
    const x = Math.min(this.x(when), this.width - 3);
    c.fillStyle = this.style('--stopped');
    c.fillRect(x - 2, OVERVIEW, 4, this.height);
    c.font = `bold ${c.font}`;
    const text = 'violation', width = c.measureText(text).width + 12;
    c.fillRect(x - width, OVERVIEW + 2, width, RULER - 4);
    c.fillStyle = '#fff';
    c.fillText(text, x - width + 6, OVERVIEW + RULER / 2);
  },

  drawCursor() {
    if (this.cursor < 0 || this.cursor < this.from || this.cursor > this.to) return;
    const { context: c } = this;
    const x = this.x(this.cursor);
    c.strokeStyle = this.style('--stopped');
    c.lineWidth = 2;
    c.beginPath();
    c.moveTo(x, OVERVIEW);
    c.lineTo(x, this.height);
    c.stroke();
  },
});
