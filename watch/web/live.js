// What pages do that are alive: they hear what has become other than they show. The rest is
// footfall.js, as in any report.
'use strict';
(() => {
const $ = (selector, from = document) => from.querySelector(selector);
const head = $('.alive'), page = head?.dataset.page;
if (!page) return;
let version = +head.dataset.version, stream = null, ended = false;

const part = name => $(`[data-live=${name}]`);
function text(name, content) {
  const e = part(name);
  if (e && e.textContent !== content) e.textContent = content;
}
const known = {};
function rows(name, html) {
  const e = part(name);
  if (e && html !== undefined && known[name] !== html) e.innerHTML = known[name] = html;
}
function word(content, className) {
  const e = part('word');
  if (e.textContent === content) return;
  e.textContent = content;
  e.className = 'beat ' + className;
}

// Numbers at the head of a source, or those of all in the index.
function totals(list) {
  const index = $('.sums tbody'), places = index ? [...index.rows] : [...document.querySelectorAll('.totals > div')];
  if (places.length !== list.length) return location.reload(); // there is another metric
  list.forEach((t, i) => {
    const place = places[i], bar = $('progress', place);
    if (bar) { bar.max = t.Total; bar.value = t.Covered; }
    $('b', place).textContent = t.Percent;
    if (!index) {
      $('span', place).textContent = t.Counts;
      return;
    }
    place.cells[2].className = t.Level;
    [t.Covered, t.Total - t.Covered, t.Total].forEach((n, k) => { place.cells[3 + k].textContent = n.toLocaleString('en'); });
  });
  const lines = list.find(t => t.Name === 'lines');
  if (lines) document.title = document.title.replace(/[\d.]+%/, lines.Percent);
}

// The items of the lists of a source, by number.
let items = null;
function item(number) {
  if (!items) {
    items = new Map();
    for (const list of document.querySelectorAll('.code ol')) {
      let n = list.start;
      for (const li of list.children) items.set(n++, li);
    }
  }
  return items.get(number);
}

function lines(changed) {
  for (const [number, html] of changed) {
    const li = item(number);
    if (!li) continue;
    const open = [...li.querySelectorAll('details')].map(d => d.open);
    const ran = li.firstElementChild?.localName === 'b';
    li.innerHTML = html;
    li.querySelectorAll('details').forEach((d, i) => { d.open = open[i] ?? false; });
    if (!ran && li.firstElementChild?.localName === 'b') {
      li.classList.add('fresh');
      setTimeout(() => li.classList.remove('fresh'), 4000);
    }
  }
  document.dispatchEvent(new Event('footfall-lines'));
}

let warm = [];
function heat(list) {
  const now = new Set();
  for (const [number, rate] of list) {
    const li = item(number);
    if (!li) continue;
    now.add(li);
    if (li.dataset.rate !== rate) li.dataset.rate = rate;
  }
  for (const li of warm) if (!now.has(li)) delete li.dataset.rate;
  warm = [...now];
}

function take(e) {
  version = e.version;
  if (e.reload) return location.reload();
  ended = Boolean(e.ended);
  word(ended ? 'ended' : 'live', ended ? 'off' : 'on');
  text('state', e.state);
  text('rate', e.rate ?? '0');
  text('growth', '+' + e.growth);
  text('activity', e.activity ?? '');
  text('ended', e.ended ?? '');
  if (part('ended')) part('ended').hidden = !ended;
  rows('recent', e.recent);
  rows('hot', e.hot);
  const said = part('said');
  if (said) said.replaceChildren(...(e.said ?? []).map(t => Object.assign(document.createElement('li'), {textContent: t})));
  totals(e.totals);
  if (e.files) document.dispatchEvent(new CustomEvent('footfall-files', {detail: e.files}));
  if (e.worst !== undefined) {
    replaced($('.missed'), e.worst);
    text('missed', e.missed);
  }
  if (e.lines) lines(e.lines);
  heat(e.heat ?? []);
  if (e.functions !== undefined) replaced($('.functions table'), e.functions);
}

// replaced has a table show other rows, sorted as it is.
function replaced(table, html) {
  if (!table) return;
  table.tBodies[0].innerHTML = html;
  table.dispatchEvent(new Event('footfall-rows'));
}

// A browser has few connections to one server, so only pages in sight have one.
function open() {
  if (stream || document.hidden) return;
  stream = new EventSource(`/events?page=${encodeURIComponent(page)}&since=${version}`);
  stream.onmessage = message => take(JSON.parse(message.data));
  stream.onopen = () => { if (!ended) word('live', 'on'); };
  stream.onerror = () => {
    const cut = stream?.readyState === EventSource.CLOSED, at = version;
    // A stream may end for others to have one, and comes back.
    setTimeout(() => {
      if (version === at && !document.hidden) word(cut ? 'cut off: reload' : 'no connection', 'off');
    }, cut ? 0 : 5000);
  };
}
function close() {
  stream?.close();
  stream = null;
}
document.addEventListener('visibilitychange', () => document.hidden ? close() : open());
addEventListener('pagehide', close);
addEventListener('pageshow', open);
open();
})();
