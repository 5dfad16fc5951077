// The table of the longest waits, and the histogram of how long Gs were runnable before they ran.

/** Returns the G that ran longest on a P in a period of time, or -1, and for how long it ran. */
function ranMeanwhile(history, processor, from, to) {
  const list = history.ofProcessor.of(processor), low = countPeriods(list, history.to, from);
  const sums = new Map();
  for (let index = low, seen = 0; index < list.length && history.from[list[index]] < to && seen < 5000; index++, seen++) {
    const n = list[index];
    if (history.goroutine[n] < 0) continue;
    const overlap = Math.min(history.to[n], to) - Math.max(history.from[n], from);
    sums.set(history.goroutine[n], (sums.get(history.goroutine[n]) ?? 0) + overlap);
  }
  return [...sums].reduce((most, sum) => (sum[1] > most[1] ? sum : most), [-1, 0]);
}

function drawWaits(section, history, choose) {
  const rows = history.longest.list;
  const cells = rows.map(({ g, from, to, why, by, processor }, index) => {
    let cause = causeOf(by);
    if (processor >= 0) {
      const [other, time] = ranMeanwhile(history, processor, from, to);
      cause = other >= 0 ? `${label(other)} ran ${duration(time)} on P${processor} meanwhile` : `P${processor} ran no G meanwhile`;
    }
    return `<tr data-row="${index}"><td class="number">${duration(to - from)}</td><td>${escapeText(label(g))}</td>` +
      `<td>${escapeText(why)}</td><td class="number">${duration(from)}</td><td>${escapeText(cause)}</td></tr>`;
  });
  section.innerHTML =
    '<table><thead><tr><th class="number">waited</th><th>G</th><th>for</th><th class="number">from</th>' +
    `<th>ended or caused by</th></tr></thead><tbody>${cells.join('')}</tbody></table>`;
  section.onclick = (event) => {
    const row = event.target.closest('tr[data-row]');
    if (!row) return;
    section.querySelectorAll('tr').forEach((one) => one.classList.toggle('selected', one === row));
    choose(rows[row.dataset.row]);
  };
}

/** Counts the run-queue latencies by powers of two. */
function latencies(history) {
  const values = [];
  for (let n = 0; n < history.count; n++) {
    if (history.activity[n] === RUN && !Number.isNaN(history.readyAt[n])) values.push(history.from[n] - history.readyAt[n]);
  }
  const sorted = Float64Array.from(values).sort();
  const buckets = new Map();
  for (const value of sorted) {
    const power = value < 1 ? 0 : Math.floor(Math.log2(value));
    buckets.set(power, (buckets.get(power) ?? 0) + 1);
  }
  return { sorted, buckets };
}

function drawLatencies(section, history) {
  const { sorted, buckets } = latencies(history);
  if (sorted.length === 0) {
    section.textContent = 'No G became runnable and then ran.';
    return;
  }
  const percentile = (share) => duration(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
  const powers = [...buckets.keys()];
  const first = Math.min(...powers), last = Math.max(...powers), most = Math.max(...buckets.values());
  const step = 28, left = 220, widest = 560, bars = [];
  let rows = 0;
  for (let power = first; power <= last; power++) {
    const count = buckets.get(power) ?? 0, y = 10 + rows * step, length = (count / most) * widest;
    if (!count && !buckets.get(power - 1)) continue;
    rows++;
    // Empty rows that follow each other are drawn as one.
    if (!count) {
      bars.push(`<text x="${left - 12}" y="${y + 20}" text-anchor="end" class="dim">⋮</text>`);
      continue;
    }
    bars.push(
      `<text x="${left - 12}" y="${y + 20}" text-anchor="end" class="dim">${duration(power === 0 ? 0 : 2 ** power)} – ${duration(2 ** (power + 1))}</text>` +
      `<rect class="bar" x="${left}" y="${y + 4}" width="${length}" height="${step - 6}" rx="2"/>` +
      `<text x="${left + length + 6}" y="${y + 20}">${count}</text>`,
    );
  }
  section.innerHTML =
    `<p>How long Gs were runnable before they ran: ${sorted.length} times. Median ${percentile(0.5)}, 90 % ${percentile(0.9)}, ` +
    `99 % ${percentile(0.99)}, longest ${duration(sorted[sorted.length - 1])}.</p>` +
    `<svg width="${left + widest + 100}" height="${20 + rows * step}">${bars.join('')}</svg>`;
}
