// What pages of a report can do beyond being read: sort, search and fold the
// index; go from one uncovered place to the next, link to lines, and show the
// whole of a source at its edge. Nothing is fetched from anywhere.
'use strict';
(() => {
const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

// make returns a new element with properties and children.
function make(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

function button(text, title, act) {
  const b = make('button', {type: 'button', textContent: text, title});
  b.addEventListener('click', act);
  return b;
}

// A browser may refuse to remember anything for pages of files.
function recall(key) {
  try { return localStorage.getItem('footfall.' + key); } catch { return null; }
}
function remember(key, value) {
  try { localStorage.setItem('footfall.' + key, value); } catch { /* this page only */ }
}

const root = document.documentElement;
root.classList.add('js');
if (recall('theme')) root.dataset.theme = recall('theme');

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  remember('theme', root.dataset.theme);
  view?.draw();
}

let said;
function say(text) {
  $('#say')?.remove();
  clearTimeout(said);
  document.body.append(make('div', {id: 'say', role: 'status', textContent: text}));
  said = setTimeout(() => $('#say')?.remove(), 1600);
}

// ---- keys and help

const keys = {
  '?': help,
  t: switchTheme,
};

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest('input, select, textarea');
  if (event.key === 'Escape' && typing) {
    typing.value = '';
    typing.dispatchEvent(new Event('input'));
    typing.blur();
    return;
  }
  if (typing || $('#help')?.open) return;
  const act = keys[event.key];
  if (act) {
    event.preventDefault();
    act(event);
  }
});

function help() {
  if (!$('#help')) {
    const rows = $('.sides') ? [
      ['n  p', 'next, previous place where something was lost, gained, or is new'],
    ] : view ? [
      ['n  p', 'next, previous lines that never ran'],
      ['b  B', 'next, previous line that ran only in part: a branch not taken, a condition not shown, a block not run'],
      ['c  C', 'next, previous changed line that never ran'],
      ['o  O', 'outcomes of this line; of all lines'],
      ['f', 'functions of this file'],
      ['[  ]', 'previous, next file'],
      ['y', 'copy the address of this line; a click on a number is the same, with shift a range of lines'],
      ['u', 'up to the index'],
    ] : [
      ['/', 'search; Escape leaves'],
      ['v', 'tree or flat list of files'],
      ['e', 'fold or unfold all directories'],
    ];
    rows.push(['t', 'light or dark'], ['?', 'this page']);
    const table = make('table', {}, ...rows.map(([key, text]) => make('tr', {},
      make('td', {}, ...key.split('  ').flatMap(k => [make('kbd', {textContent: k}), ' '])), make('td', {textContent: text}))));
    const dialog = make('dialog', {id: 'help'}, make('h2', {textContent: 'Keys'}), table);
    dialog.setAttribute('aria-label', 'help');
    if (view) {
      dialog.insertAdjacentHTML('beforeend', `<h2>Lines</h2><div class="file n3 w5"><main><div class=code><ol>
<li><b class=h1>12</b>ran 12 times; the stronger the colour, the more often\n<li><b class=p>3</b>ran, but not all of it\n<details><summary>1/2</summary></details><li><u>0</u><u>0/2</u>never ran\n<li class=c>changed by the patch\n<li class=e>excluded\n</ol></div></main></div>
<p>1/2: one of two branches was taken; c: outcomes of conditions; ƒ: calls. It unfolds: ↓ goes on, ↷ jumps.`);
    }
    dialog.append(make('form', {method: 'dialog'}, make('button', {textContent: 'Close'})));
    dialog.addEventListener('click', event => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
  }
  $('#help').showModal();
}

function tools(...more) {
  return make('div', {className: 'tools'}, ...more,
    button('◐', 'light or dark (t)', switchTheme), button('?', 'keys and signs (?)', help));
}

// ---- tables

const collator = new Intl.Collator(undefined, {numeric: true});

// value is what a cell is sorted by: a number, the part of a ratio, a text.
function value(text) {
  const t = text.trim().replaceAll(',', '');
  if (t === '' || t === '-') return null;
  if (t === 'never') return 0;
  const ratio = /^(\d+)\/(\d+)$/.exec(t);
  if (ratio) return ratio[1] / ratio[2];
  return /^[\d.]+%?$/.test(t) ? parseFloat(t) : t;
}

function compare(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(a, b);
}

// sortable makes buttons of a table's headings. order(column, sign) sorts;
// descending tells which columns begin with the largest.
function sortable(table, order, descending) {
  headings(table).forEach(({th, group}, at) => {
    if (th.classList.contains('bar')) return;
    const name = th.textContent;
    const b = button(name, 'sort by ' + (group && name !== 'missed' ? group + ', ' : '') + name, () => {
      const now = th.getAttribute('aria-sort');
      const down = now ? now === 'ascending' : descending.includes(name);
      for (const other of $$('thead th', table)) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      order(at, down ? -1 : 1);
    });
    b.dataset.group = group;
    th.replaceChildren(b);
  });
}

// headings are those of the columns, with the name of the group that one is in.
function headings(table) {
  const [first, second] = table.tHead.rows;
  if (!second) return [...first.cells].map(th => ({th, group: ''}));
  const list = [{th: first.cells[0], group: ''}], below = [...second.cells];
  for (const group of [...first.cells].slice(1)) {
    for (const th of below.splice(0, group.colSpan)) list.push({th, group: group.textContent});
  }
  return list;
}

const manyFiles = 200; // that begin folded
const largestFirst = ['missed', 'calls'];

function plainTable(table) {
  if (table.dataset.sortable) return;
  table.dataset.sortable = true;
  sortable(table, (column, sign) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map(row => [value(row.cells[column]?.textContent ?? ''), row]);
    rows.sort((a, b) => a[0] === null || b[0] === null ? compare(a[0], b[0]) : sign * compare(a[0], b[0]));
    body.append(...rows.map(r => r[1]));
  }, largestFirst);
  for (const th of $$('thead th', table)) if (th.textContent === 'missed') th.setAttribute('aria-sort', 'descending');
  table.addEventListener('footfall-rows', () => {
    const sorted = $('thead th[aria-sort]', table);
    if (!sorted) return;
    // The button turns the order round.
    sorted.setAttribute('aria-sort', sorted.getAttribute('aria-sort') === 'descending' ? 'ascending' : 'descending');
    sorted.firstChild.click();
  });
}

// ---- index

// mostRows is how many rows a browser shows with ease.
const mostRows = 5000;

// percent is that of the report: rounded down, but a little is not nothing.
function percent(covered, total) {
  if (!total) return '-';
  const tenths = Math.max(Math.floor(covered * 1000 / total), covered ? 1 : 0);
  return `${Math.floor(tenths / 10)}.${tenths % 10}%`;
}

// readEntry takes apart what data say of a file or folder: what is missed and the
// total of each metric, how good they are, how much of the name is that of the one
// before, and the rest of the name. Numbers have base 36, and nothing is 0.
function readEntry(entry, after, metrics) {
  const ratios = [];
  let at = 0;
  const number = () => {
    const end = entry.indexOf(' ', at), digits = entry.slice(at, end);
    at = end + 1;
    return parseInt(digits || '0', 36);
  };
  for (let i = 0; i < metrics; i++) {
    const missed = number(), total = number();
    ratios.push(total - missed, total);
  }
  const levels = number(), shared = number();
  return {name: after.slice(0, shared) + entry.slice(at), ratios, levels};
}

// escapedPath is how most pages are called.
function escapedPath(path) {
  const hex = byte => '=' + byte.toString(16).toUpperCase().padStart(2, '0');
  return path.replace(/[^\w.-]/gu, c => c === '/' ? '~' : [...new TextEncoder().encode(c)].map(hex).join(''));
}

// newRow is the row of a node of data, as the page has them of smaller trees.
function newRow(node) {
  const cells = [make('th', {scope: 'row'}, node.folder ? node.name : make('a', {href: node.href, textContent: node.name, className: Math.floor(node.levels / 2 ** node.ratios.length) % 2 ? 'stale' : ''}))];
  const r = node.ratios;
  for (let i = 0; i < r.length; i += 2) {
    const covered = r[i], total = r[i + 1];
    if (!i) {
      const bar = total ? [make('progress', {value: covered, max: total, ariaHidden: 'true'})] : [];
      cells.push(make('td', {}, ...bar), make('td', {textContent: total - covered}));
    }
    const level = ['', '', 'fair', 'poor'][Math.floor(node.levels / 2 ** i) % 4];
    cells.push(make('td', {textContent: percent(covered, total), className: level}), make('td', {textContent: total ? `${covered}/${total}` : ''}));
  }
  return make('tr', {className: (node.folder ? 'd' : 'f') + Math.min(node.depth, 9)}, ...cells);
}

// ratioValues are what the cells of a row from the second on are sorted by.
function ratioValues(r) {
  const values = [null, r[1] - r[0]];
  for (let i = 0; i < r.length; i += 2) {
    const total = r[i + 1];
    values.push(total ? 100 * r[i] / total : null, total ? r[i] / total : null);
  }
  return values;
}

function index(table) {
  // A node is a row: {row, path, parent, children, values, open}. Those of data get
  // their row when it is to be seen.
  const top = {children: [], path: '', open: true, depth: -1};
  const files = [];
  const add = (node, parent) => {
    Object.assign(node, {parent, children: [], path: parent.path + node.name, depth: parent.depth + 1});
    parent.children.push(node);
    if (!node.folder) files.push(node);
    return node;
  };
  const dress = node => {
    const cell = node.row.cells[0];
    if (node.folder) {
      node.button = button(node.name, '', () => fold(node, !node.open));
      node.button.setAttribute('aria-expanded', node.open);
      cell.replaceChildren(node.button);
    } else {
      node.before = make('span', {className: 'dir', textContent: node.parent.path, hidden: !flat});
      cell.prepend(node.before);
    }
  };
  const rowOf = node => {
    if (!node.row) {
      node.row = newRow(node);
      dress(node);
    }
    return node.row;
  };
  let metrics = 0;
  const grow = ([, folders, pages], parent) => {
    let after = '';
    const take = (entry, folder) => {
      const read = readEntry(entry, after, metrics);
      after = read.name;
      const values = Object.assign([read.name, ...ratioValues(read.ratios)], {ran: read.ratios[0], lines: read.ratios[1]});
      return add({...read, folder, open: false, values}, parent);
    };
    for (const folder of folders) grow(folder, take(folder[0], true));
    after = '';
    for (const file of pages) {
      const [entry, page] = [file].flat();
      const node = take(entry, false);
      node.href = `files/${page ?? escapedPath(node.path)}.html`;
    }
  };

  let flat = false, sorted = null, words = [], hideFull = false;
  const most = self.footfallTree ? mostRows : Infinity;
  if (self.footfallTree) {
    metrics = (self.footfallTree[0].split(' ').length - 3) / 2; // that of the whole has no name
    grow(self.footfallTree, top);
    for (const node of top.children) node.open = top.children.length === 1;
  } else {
    const stack = [top];
    for (const row of table.tBodies[0].rows) {
      const depth = +row.className.slice(1), folder = row.className[0] === 'd';
      // Beyond the deepest indentation the depth says no more.
      while (stack.length > depth + 1) stack.pop();
      const name = row.cells[0].textContent;
      const values = [name, ...[...row.cells].slice(1).map(c => value(c.textContent))];
      const [ran, lines] = row.cells[4].textContent.split('/').map(Number);
      const node = add({row, name, folder, open: true, values: Object.assign(values, {ran, lines: lines || 0})}, stack.at(-1));
      if (folder) stack.push(node);
      dress(node);
    }
    if (files.length > manyFiles) {
      const close = (node, open) => {
        for (const c of node.children) if (c.folder) {
          c.open = open && node.children.length === 1;
          c.button.setAttribute('aria-expanded', c.open);
          close(c, c.open);
        }
      };
      close(top, true);
    }
  }
  const fold = (node, open) => {
    node.open = open;
    node.button?.setAttribute('aria-expanded', open);
    show();
  };
  const by = (a, b) => {
    if (!sorted) return 0;
    const [column, sign] = sorted;
    const x = a.values[column], y = b.values[column];
    if (column === 0) return (flat ? collator.compare(a.path, b.path) : compare(x, y)) * sign;
    const c = x === null || y === null ? compare(x, y) : sign * compare(x, y);
    return c || b.values[2] - a.values[2]; // of equal ones, what misses more
  };
  const wanted = node => words.every(w => node.path.toLowerCase().includes(w)) && !(hideFull && node.values[2] === 0);

  // show puts the rows into the table that are to be seen, in order.
  function show() {
    const rows = [];
    let shown = 0;
    const add = nodes => {
      let any = false;
      for (const node of sorted ? [...nodes].sort(by) : nodes) {
        if (!node.folder) {
          if (wanted(node)) { rows.push(node); shown++; any = true; }
          continue;
        }
        const at = rows.length;
        rows.push(node);
        if (node.open || words.length) {
          if (!add(node.children)) rows.length = at;
        } else {
          const inside = count(node);
          shown += inside;
          if (!inside) rows.length = at;
        }
        any ||= rows.length > at;
      }
      return any;
    };
    const count = node => node.folder ? node.children.reduce((n, c) => n + count(c), 0) : +wanted(node);
    add(flat ? files : top.children);
    table.classList.toggle('flat', flat);
    for (const f of files) if (f.before) f.before.hidden = !flat;
    table.tBodies[0].replaceChildren(...rows.slice(0, most).map(rowOf));
    found.textContent = shown === files.length && rows.length <= most ? '' : `${shown} of ${files.length} files`;
    if (rows.length > most) found.textContent += `, the first ${most} rows are shown`;
  }

  const sort = name => headings(table).find(h => h.th.textContent === name)?.th.firstChild.click();
  const setFlat = on => {
    flat = on;
    remember('flat', on ? 'yes' : 'no');
    treeButton.setAttribute('aria-pressed', !on);
    flatButton.setAttribute('aria-pressed', on);
    foldButton.hidden = on;
    if (on && !sorted) return sort('missed');
    if (!on && sorted && sorted[2]) {
      sorted = null;
      for (const {th} of headings(table)) th.removeAttribute('aria-sort');
    }
    show();
  };
  const foldAll = () => {
    const open = !files.some(f => f.parent !== top && f.parent.open);
    const walk = n => n.children.forEach(c => {
      if (!c.folder) return;
      c.open = open;
      c.button?.setAttribute('aria-expanded', open);
      walk(c);
    });
    walk(top);
    show();
  };
  const search = make('input', {type: 'search', placeholder: 'search files', ariaLabel: 'search files'});
  search.addEventListener('input', () => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    show();
  });
  search.addEventListener('keydown', event => {
    const first = $('tbody a', table);
    if (event.key === 'Enter' && words.length && first) location.href = first.href;
  });
  const full = make('input', {type: 'checkbox'});
  full.addEventListener('change', () => { hideFull = full.checked; show(); });
  const treeButton = button('tree', 'by directory (v)', () => setFlat(false));
  const flatButton = button('flat', 'one list (v)', () => setFlat(true));
  const foldButton = button('fold', 'fold or unfold all (e)', foldAll);
  const found = make('output');
  table.parentElement.before(make('div', {className: 'bar-tools'}, search, treeButton, flatButton, foldButton,
    make('label', {}, full, ' only what misses lines'), found));

  sortable(table, (column, sign) => { sorted = [column, sign, flat]; show(); }, largestFirst);
  if (top.children.every(n => !n.folder)) {
    treeButton.hidden = flatButton.hidden = foldButton.hidden = true;
  }
  setFlat(recall('flat') === 'yes');
  // What the report was asked to show first.
  const {order} = table.dataset;
  if (order === 'missed' && !flat) sort('missed');
  if (order === 'ran' || order === 'lines') {
    sorted = [order, -1, flat];
    for (const {th} of headings(table)) th.removeAttribute('aria-sort');
    show();
  }
  const within = () => {
    const prefix = /^#in=(.*)/.exec(location.hash);
    if (!prefix) return;
    search.value = decodeURIComponent(prefix[1]);
    search.dispatchEvent(new Event('input'));
  };
  addEventListener('hashchange', within);
  within();

  // Who serves pages tells what has become of files and directories. Rows stay where they are.
  let byPath = null;
  document.addEventListener('footfall-files', event => {
    if (!byPath) {
      byPath = new Map();
      const walk = node => { byPath.set(node.path, node); node.children.forEach(walk); };
      top.children.forEach(walk);
    }
    for (const [path, levels, ...ratios] of event.detail) {
      const node = byPath.get(path);
      if (!node) continue;
      const more = ratios[0] > node.values.ran;
      Object.assign(node, {ratios, levels, values: Object.assign([node.name, ...ratioValues(ratios)], {ran: ratios[0], lines: ratios[1]})});
      if (!node.row) continue;
      const fresh = newRow(node);
      [...fresh.cells].slice(1).forEach((cell, i) => node.row.cells[i + 1].replaceWith(cell));
      if (more) {
        node.row.classList.remove('grew');
        void node.row.offsetWidth; // so that it begins anew
        node.row.classList.add('grew');
      }
    }
    if (hideFull) show();
  });
  Object.assign(indexKeys, {
    '/': () => search.focus(),
    v: () => setFlat(!flat),
    e: foldAll,
  });
}
const indexKeys = {};

// missed adds search to a list of functions that has no table of files above.
function missed(table) {
  plainTable(table);
  const rows = [...table.tBodies[0].rows].map(row => ({row, text: row.textContent.toLowerCase(), never: $('u', row.cells[2]) !== null}));
  const search = make('input', {type: 'search', placeholder: 'search functions', ariaLabel: 'search functions'});
  const never = make('input', {type: 'checkbox'});
  const found = make('output');
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const r of rows) {
      r.row.hidden = !(words.every(w => r.text.includes(w)) && (r.never || !never.checked));
      n += !r.row.hidden;
    }
    found.textContent = n === rows.length ? '' : `${n} of ${rows.length}`;
  };
  search.addEventListener('input', show);
  never.addEventListener('change', show);
  table.parentElement.before(make('div', {className: 'bar-tools'}, search, make('label', {}, never, ' never called'), found));
  indexKeys['/'] ??= () => search.focus();
}

// compared has n and p go from one place that is not as it was to the next.
function compared() {
  const rows = $$('.sides tbody tr'), is = row => /^(lost|miss|gain|new)$/.test(row?.className);
  const stops = rows.filter((row, i) => is(row) && !(is(rows[i - 1]) && row.previousElementSibling));
  let at = -1;
  const go = step => {
    if (!stops.length) return say('nothing here');
    at = (at + step + stops.length) % stops.length;
    for (const row of $$('.here')) row.classList.remove('here');
    stops[at].classList.add('here');
    stops[at].scrollIntoView({block: 'center'});
    say(`${at + 1} of ${stops.length}`);
  };
  Object.assign(indexKeys, {n: () => go(1), p: () => go(at < 0 ? 0 : -1)});
}

// ---- a source

const none = 0, ran = 1, part = 2, never = 3;

class Source {
  constructor(section) {
    this.section = section;
    this.read();
    this.at = -1;
    for (const table of $$('.functions table', section)) plainTable(table);
    this.where = make('output', {ariaLabel: 'place'});
    const move = (text, title, act) => button(text, title, act);
    this.tools = tools(this.where,
      move('▴ p', 'previous lines that never ran (p)', () => this.go(this.gaps, -1, 'gap')),
      move('▾ n', 'next lines that never ran (n)', () => this.go(this.gaps, 1, 'gap')),
      move('▾ b', 'next line that ran in part (b)', () => this.go(this.parts, 1, 'partial line')));
    $('header', section).append(this.tools);
    this.tellGaps();
    $('main', section).addEventListener('click', event => this.click(event));
    this.sight = make('div', {className: 'sight'});
    this.canvas = make('canvas');
    this.map = make('div', {id: 'map'}, this.canvas, this.sight);
    this.map.setAttribute('aria-hidden', 'true');
    section.append(this.map);
    const jump = event => {
      if (event.buttons !== 1) return;
      const at = Math.floor((event.clientY - this.map.getBoundingClientRect().top) / this.scale);
      this.lines[Math.max(0, Math.min(at, this.lines.length - 1))]?.li.scrollIntoView({block: 'center'});
    };
    this.map.addEventListener('pointerdown', jump);
    this.map.addEventListener('pointermove', jump);
    this.draw();
  }

  // read finds out what is on which line.
  read() {
    this.lines = [];
    this.byNumber = new Map();
    this.gaps = [];      // where lines that never ran begin, as indexes of lines
    this.parts = [];     // lines that ran in part
    this.changes = [];   // lines of the patch that never ran
    let gap = false;
    for (const list of $$('.code ol', this.section)) {
      let number = list.start;
      for (const li of list.children) {
        const first = li.firstElementChild, name = first?.localName;
        const kind = name === 'u' ? never : name !== 'b' ? none : first.className[0] === 'p' ? part : ran;
        const at = this.lines.length;
        this.byNumber.set(number, at);
        this.lines.push({li, number, kind, heat: kind === ran || kind === part ? +(first.className[1] ?? 0) : 0});
        if (kind === never && !gap) this.gaps.push(at);
        if (kind === part) this.parts.push(at);
        if (kind === never && li.className === 'c') this.changes.push(at);
        if (kind !== none) gap = kind === never;
        number++;
      }
    }
  }

  tellGaps() {
    const parts = $('.parts', this.section), elsewhere = parts ? $$('a', parts).reduce((n, a) => n + +a.dataset.gaps, 0) : 0;
    this.where.textContent = (this.gaps.length === 1 ? '1 gap' : `${this.gaps.length} gaps`) + (elsewhere ? `, ${elsewhere} in other parts` : '');
  }

  // top returns the line that is read: the one marked, if it is in sight, or
  // the first below the header.
  top() {
    const edge = $('header', this.section).getBoundingClientRect().bottom;
    if (this.at >= 0) {
      const box = this.lines[this.at].li.getBoundingClientRect();
      if (box.bottom > edge && box.top < innerHeight) return this.at;
    }
    let low = 0, high = this.lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lines[middle].li.getBoundingClientRect().bottom > edge) high = middle; else low = middle + 1;
    }
    return low - 1;
  }

  go(stops, step, name) {
    if (!stops.length) return say(`no ${name} here`);
    const from = this.top();
    let i = step > 0 ? stops.findIndex(s => s > from) : stops.findLastIndex(s => s < from);
    if (i < 0) {
      i = step > 0 ? 0 : stops.length - 1;
      if (stops.length > 1) say(step > 0 ? 'from the top' : 'from the end');
    }
    this.mark(stops[i], 'here');
    this.where.textContent = `${name} ${i + 1} of ${stops.length}`;
  }

  // mark shows a line, given by its index.
  mark(at, className) {
    for (const e of $$('.here, .chosen', this.section)) e.classList.remove('here', 'chosen');
    this.at = at;
    const li = this.lines[at].li;
    li.classList.add(className);
    li.scrollIntoView({block: 'center'});
  }

  choose(from, to) {
    if (!this.byNumber.has(from)) return false;
    this.mark(this.byNumber.get(from), 'chosen');
    for (let n = from; n <= to; n++) this.lines[this.byNumber.get(n)]?.li.classList.add('chosen');
    return true;
  }

  // address is that of a line in this page.
  address(from, to) {
    return (single ? `#${this.section.id}:` : '#') + (to > from ? `L${from}-L${to}` : `L${from}`);
  }

  click(event) {
    const li = event.target;
    if (li.localName !== 'li' || !li.closest('.code')) return;
    if (event.clientX - li.getBoundingClientRect().left > parseFloat(getComputedStyle(li, '::before').width)) return;
    const at = this.lines.findIndex(l => l.li === li);
    if (at < 0) return;
    const number = this.lines[at].number;
    const first = event.shiftKey && this.at >= 0 ? this.lines[this.at].number : number;
    history.replaceState(null, '', this.address(Math.min(first, number), Math.max(first, number)));
    const y = scrollY;
    route();
    scrollTo(scrollX, y);
    this.at = at;
  }

  copy() {
    const at = Math.max(this.top(), 0);
    const address = this.address(this.lines[at].number);
    history.replaceState(null, '', address);
    navigator.clipboard?.writeText(location.href).then(() => say('address copied'), () => say(address));
    this.mark(at, 'chosen');
  }

  outcomes(all) {
    const list = $$(all ? '.code li > details:not(.f)' : ':scope > details', all ? this.section : this.lines[Math.max(this.top(), 0)]?.li ?? this.section);
    if (!list.length) return say('nothing unfolds here; n and b go on');
    const open = list.some(d => !d.open);
    for (const d of list) d.open = open;
  }

  // draw paints the map: what ran at the left, what did not at the right, so
  // that colour is not needed to tell.
  draw() {
    root.style.setProperty('--top', $('header', this.section).offsetHeight + 'px');
    const height = this.map.clientHeight, width = this.map.clientWidth;
    if (!height || !this.lines.length) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.scale = Math.min(height / this.lines.length, 3);
    const c = this.canvas.getContext('2d');
    c.scale(ratio, ratio);
    // Custom properties are light-dark(); a computed colour is one of the two.
    const probe = make('span');
    this.section.append(probe);
    const colour = name => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const [hit, miss, partial] = ['hit', 'miss', 'part-text'].map(colour);
    probe.remove();
    const tall = Math.max(this.scale, 1);
    this.lines.forEach((l, i) => {
      if (l.kind === none) return;
      c.fillStyle = l.kind === never ? miss : l.kind === part ? partial : hit;
      c.globalAlpha = l.kind === ran ? .35 + .16 * l.heat : 1;
      c.fillRect(l.kind === never ? 34 : 5, i * this.scale, l.kind === part ? 32 : l.kind === never ? 28 : 24, tall);
    });
    this.window();
  }

  // window shows which part of the map is in sight.
  window() {
    const main = $('main', this.section).getBoundingClientRect();
    const total = this.scale * this.lines.length;
    const at = y => Math.max(0, Math.min(1, (y - main.top) / main.height)) * total;
    const from = at(this.map.getBoundingClientRect().top);
    this.sight.style.top = from + 'px';
    this.sight.style.height = Math.max(at(innerHeight) - from, 6) + 'px';
  }
}

let view = null; // the source that is shown
const views = new Map();
const single = document.body.classList.contains('single');

function open(section) {
  if (!views.has(section)) views.set(section, new Source(section));
  view = views.get(section);
  view.draw();
}

// unpack puts the lines of a source into the page that has them compressed.
async function unpack(section) {
  const packed = $('script', section);
  if (!packed) return;
  const bytes = Uint8Array.from(atob(packed.textContent), c => c.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).text();
  packed.outerHTML = text;
}

// route shows what the address asks for: LINES of this page, or of a SOURCE in
// a page that has several.
async function route() {
  const wanted = /^#(?:(.*?)(?::|$))?(?:L(\d+)(?:-L?(\d+))?)?$/.exec(single ? location.hash || '#' : location.hash.replace(/^#/, '#:'));
  if (single) {
    const section = wanted?.[1] ? document.getElementById(wanted[1]) : null;
    const isSource = section?.matches('section.file');
    for (const s of $$('section.file')) s.hidden = s !== section;
    $('#overview').hidden = isSource;
    $('#help')?.remove();
    if (!isSource) {
      view = null;
      setKeys();
      return;
    }
    await unpack(section);
    open(section);
    setKeys();
    if (!wanted[2]) scrollTo(0, 0);
  }
  if (!view || !wanted?.[2]) return;
  const from = +wanted[2], to = +(wanted[3] ?? from);
  if (view.choose(from, to)) return;
  for (const a of $$('.parts a', view.section)) {
    if (from >= a.dataset.from && from <= a.dataset.to) {
      location.replace(a.getAttribute('href') + location.hash);
      return;
    }
  }
  say(`no line ${from}`);
}

function setKeys() {
  for (const key of Object.keys(keys)) if (key !== '?' && key !== 't') delete keys[key];
  if (!view) return Object.assign(keys, indexKeys);
  const follow = selector => () => $(selector, view.section)?.click();
  Object.assign(keys, {
    n: () => view.go(view.gaps, 1, 'gap'), p: () => view.go(view.gaps, -1, 'gap'),
    b: () => view.go(view.parts, 1, 'partial line'), B: () => view.go(view.parts, -1, 'partial line'),
    c: () => view.go(view.changes, 1, 'changed line'), C: () => view.go(view.changes, -1, 'changed line'),
    o: () => view.outcomes(false), O: () => view.outcomes(true),
    f: () => {
      const list = $('.functions', view.section);
      if (!list) return;
      list.open = !list.open;
      if (list.open) { scrollTo(0, 0); $('a', list)?.focus(); }
    },
    y: () => view.copy(),
    u: follow('header nav a'), '[': follow('a[rel=prev]'), ']': follow('a[rel=next]'),
  });
}

const sources = $$('section.file');
if (!single && sources.length) open(sources[0]);
if ($('#tree')) index($('#tree'));
for (const table of $$('.missed')) $('#tree') && !single ? plainTable(table) : missed(table);
for (const table of $$('.compared')) plainTable(table);
if ($('.sides')) compared();
if ($('.index > header, #overview > header')) $('.index > header, #overview > header').append(tools());
setKeys();
route();
addEventListener('hashchange', route);
let waiting = false;
addEventListener('scroll', () => {
  if (waiting || !view) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; view?.window(); });
}, {passive: true});
// Who serves pages has put other lines into one.
document.addEventListener('footfall-lines', () => {
  if (!view) return;
  const gaps = view.gaps.length;
  view.read();
  if (view.gaps.length !== gaps) view.tellGaps();
  view.draw();
});
addEventListener('resize', () => view?.draw());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view?.draw());
})();
