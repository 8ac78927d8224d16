const [rows, columns] = data.grid;
const [high, wide] = data.window;
const down = rows / high, across = columns / wide, area = high * wide;
const LETTERS = "ABCDEFGHI";
const ROLLED = [false, true, true, true, false]; // which steps show the rolled grid
let query = data.start; // number of the chosen patch, as in the picture
let drawnAt = new Map(); // where each patch was drawn last, so that it can move from there

function windowOf(place) { // of a place of the grid that is cut: number of its window
  return Math.floor(Math.floor(place / columns) / high) * across + Math.floor((place % columns) / wide);
}
function placesOf(window) { // places of one window, row by row
  const top = Math.floor(window / across) * high, left = (window % across) * wide;
  return Array.from({ length: area }, function (_, t) {
    return (top + Math.floor(t / wide)) * columns + left + (t % wide);
  });
}
function name(patch) { return "row " + (Math.floor(patch / columns) + 1) + ", column " + (patch % columns + 1); }

const step = kit.choices("Step", data.steps, 0, function (index) { walk.set(index + 1); });
const walk = kit.player("Walk", { min: 1, max: data.steps.length, value: 1, pause: 1500, show: function (at) {
  return at + " of " + data.steps.length;
} }, function (at) { if (step.value() !== at - 1) step.set(at - 1); else draw(); });
const shift = kit.choices("Shift", data.shifts.map(function (s) {
  return s[0] || s[1] ? s[0] + " down, " + s[1] + " right" : "none";
}), data.shifts.length - 1, draw);
const row = kit.slider("Patch: row", { min: 1, max: rows, value: Math.floor(query / columns) + 1 }, moved);
const column = kit.slider("Patch: column", { min: 1, max: columns, value: query % columns + 1 }, moved);
const gridBox = kit.element("div", { class: "grid" });
const maskBox = kit.element("div", { class: "mask" });
kit.root.append(step.node, walk.node, shift.node, row.node, column.node,
  kit.element("div", { class: "row" }, gridBox, maskBox));

function moved() { if (choose.busy) return; query = (row.value() - 1) * columns + column.value() - 1; draw(); }
function choose(patch) {
  choose.busy = true;
  row.set(Math.floor(patch / columns) + 1);
  column.set(patch % columns + 1);
  choose.busy = false;
  query = patch;
  draw();
}

// What the layer does, for the chosen shift: which patch lies where, in which window and region, and who sees whom.
function layer() {
  const which = shift.value();
  const stepShown = step.value();
  const plain = stepShown === 0; // the layer before: windows that were not moved
  const patchAt = plain ? data.rolled[0] : data.rolled[which];
  const regions = plain ? data.regions[0] : data.regions[which];
  const placeOf = [];
  patchAt.forEach(function (patch, place) { placeOf[patch] = place; });
  const window = windowOf(placeOf[query]);
  const places = placesOf(window);
  const sees = places.map(function (a) {
    return places.map(function (b) { return regions[a] === regions[b]; });
  });
  const asking = places.indexOf(placeOf[query]);
  const seen = new Set(places.filter(function (_, t) { return sees[asking][t]; }).map(function (p) { return patchAt[p]; }));
  return { patchAt: patchAt, placeOf: placeOf, regions: regions, window: window, places: places, sees: sees,
    asking: asking, seen: seen };
}

function draw() {
  const now = step.value();
  const state = layer();
  const cell = 40, pad = 3;
  const width = columns * cell + 2 * pad, height = rows * cell + 2 * pad;
  const [up, left] = data.shifts[shift.value()];
  const svg = kit.svg("svg", { role: "img", width: width, height: height, viewBox: "0 0 " + width + " " + height,
    "aria-label": data.steps[now].slice(2) + ": the grid of " + rows + " × " + columns + " patches" });
  const moves = [];
  const windowShown = []; // of each drawn place: what separates it from its neighbours
  const letters = Array.from(new Set(state.places.map(function (p) { return state.regions[p]; }))).sort();
  for (let place = 0; place < rows * columns; place++) {
    const patch = ROLLED[now] ? state.patchAt[place] : place;
    const cut = ROLLED[now] ? place : state.placeOf[place]; // where this patch lies in the grid that is cut
    const r = Math.floor(place / columns), c = place % columns;
    const cameRound = ROLLED[now] && (Math.floor(patch / columns) < up || patch % columns < left);
    const inWindow = windowOf(cut) === state.window;
    const kind = (patch === query ? "query" : now === 1 ? (cameRound ? "round" : "") :
      state.seen.has(patch) ? "seen" : now === 3 && inWindow ? "hidden" : "");
    windowShown.push(now === 1 ? (cameRound ? 1 : 0) : windowOf(cut) * 9 + (now >= 2 ? state.regions[cut] : 0));
    const group = kit.svg("g", { class: "patch " + kind, "data-patch": patch,
      onclick: function () { choose(patch); } },
      kit.svg("title", {}, "patch in " + name(patch) + ", window " + (windowOf(cut) + 1)),
      kit.svg("rect", { x: pad + c * cell, y: pad + r * cell, width: cell, height: cell }),
      kit.svg("text", { x: pad + (c + 0.5) * cell, y: pad + (r + 0.5) * cell + 5, "text-anchor": "middle" },
        Math.floor(patch / columns) + 1 + "," + (patch % columns + 1)));
    if (now === 3 && inWindow) {
      group.append(kit.svg("text", { class: "letter", x: pad + c * cell + 5, y: pad + r * cell + 12 },
        LETTERS[letters.indexOf(state.regions[cut])]));
    }
    svg.append(group);
    moves.push([patch, group, pad + c * cell, pad + r * cell]);
  }
  // Lines: thick between windows, dashed between the regions of one window.
  for (let place = 0; place < rows * columns; place++) {
    const r = Math.floor(place / columns), c = place % columns;
    [[0, 1], [1, 0]].forEach(function ([dr, dc]) {
      if (r + dr >= rows || c + dc >= columns) return;
      const other = place + dr * columns + dc;
      if (windowShown[place] === windowShown[other]) return;
      const sameWindow = now !== 1 && Math.floor(windowShown[place] / 9) === Math.floor(windowShown[other] / 9);
      svg.append(kit.svg("line", { class: sameWindow ? "region" : "border",
        x1: pad + (c + dc) * cell, y1: pad + (r + dr) * cell,
        x2: pad + (c + 1) * cell, y2: pad + (r + 1) * cell }));
    });
  }
  svg.append(kit.svg("rect", { class: "frame", x: pad, y: pad, width: columns * cell, height: rows * cell }));
  gridBox.replaceChildren(svg);
  travel(moves);
  drawMask(now, state, letters);
  announce(now, state, letters.length);
}

// Let every patch glide from where it was to where it is now; the style sheet stills this where motion is not wanted.
function travel(moves) {
  const before = drawnAt;
  drawnAt = new Map(moves.map(function ([patch, , x, y]) { return [patch, [x, y]]; }));
  const moved = moves.filter(function ([patch, , x, y]) {
    const old = before.get(patch);
    return old && (old[0] !== x || old[1] !== y);
  });
  moved.forEach(function ([patch, group, x, y]) {
    const [oldX, oldY] = before.get(patch);
    group.style.transform = "translate(" + (oldX - x) + "px, " + (oldY - y) + "px)";
  });
  gridBox.getBoundingClientRect(); // the browser notes the old places before they change
  moved.forEach(function ([, group]) {
    group.style.transition = "transform 0.9s";
    group.style.transform = "none";
  });
}

function drawMask(now, state, letters) {
  if (now !== 3) { maskBox.replaceChildren(); return; }
  const cell = Math.min(17, 272 / area), pad = 16;
  const size = area * cell + pad + 2;
  const svg = kit.svg("svg", { role: "img", width: size, height: size, viewBox: "0 0 " + size + " " + size,
    "aria-label": "Mask of window " + (state.window + 1) + ": " + area + " queries by " + area + " keys" });
  state.sees.forEach(function (line, q) {
    [[2, pad + q * cell + cell * 0.75], [pad + q * cell + cell * 0.2, 11]].forEach(function ([x, y]) {
      svg.append(kit.svg("text", { class: "letter", x: x, y: y },
        LETTERS[letters.indexOf(state.regions[state.places[q]])]));
    });
    line.forEach(function (may, k) {
      svg.append(kit.svg("rect", { class: (may ? "may" : "not") + (q === state.asking ? " asking" : ""),
        x: pad + k * cell, y: pad + q * cell, width: cell - 1, height: cell - 1 }));
    });
  });
  maskBox.replaceChildren(kit.element("p", {}, "Mask of window " + (state.window + 1) +
    ": a row for each query, a column for each key; filled = may attend"), svg);
}

function announce(now, state, regionCount) {
  const who = "The patch in " + name(query);
  const [up, left] = data.shifts[shift.value()];
  const place = state.placeOf[query];
  const words = [
    who + " is in window " + (state.window + 1) + " of " + down * across + " and sees its " + state.seen.size + " patches.",
    "Rolled up by " + up + " and to the left by " + left + ". " + who + " now lies in " + name(place) + ".",
    "Cut as before: " + down * across + " windows again. " + who + " is in window " + (state.window + 1) +
      ", which holds " + regionCount + (regionCount === 1 ? " piece" : " pieces") + " of the picture.",
    "In window " + (state.window + 1) + ", " + who.toLowerCase() + " may attend to " + state.seen.size + " of " + area +
      " patches.",
    "Back in place. " + who + " has seen " + state.seen.size + " patches of a window that was moved by " + up +
      " down and " + left + " to the right.",
  ];
  kit.announce(words[now]);
}
draw();
