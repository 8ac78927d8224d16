// Thumbnails of all maps, grouped by kind; one of them large, with its tokens; one of its rows in bars and digits.
const KINDS = ["encoder", "decoder", "cross"];
const TITLES = { encoder: "Encoder: source to source", decoder: "Decoder: target to earlier target",
  cross: "Cross: target to source" };
const weights = {};
KINDS.forEach(function (kind) { weights[kind] = kit.unpack(data.weights[kind]); });
const rowNames = { encoder: data.source, decoder: data.read, cross: data.read };
const keyNames = { encoder: data.source, decoder: data.read, cross: data.source };
let [kind, layer, head, query] = data.start;

function paint(canvas, map, layer, head) {
  const [, , rows, columns] = map.shape;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const at = 4 * (i * columns + j);
      image.data.set([47, 126, 216, Math.round(255 * map.at(layer, head, i, j))], at);
    }
  }
  context.putImageData(image, 0, 0);
}

// One radio button for each map: left and right go through the heads, up and down through the layers of all kinds.
const rows = [];
const groups = KINDS.map(function (name) {
  const [layers, heads] = weights[name].shape;
  const lines = [];
  for (let l = 0; l < layers; l++) {
    const buttons = [];
    for (let h = 0; h < heads; h++) {
      const canvas = kit.element("canvas", { "aria-hidden": "true" });
      paint(canvas, weights[name], l, h);
      buttons.push(kit.element("button", { type: "button", role: "radio", class: "thumb",
        "aria-label": name + ", layer " + (l + 1) + ", head " + (h + 1),
        onclick: function () { choose(name, l, h); }, onkeydown: move }, canvas));
    }
    rows.push({ kind: name, layer: l, buttons: buttons });
    lines.push(kit.element("div", { class: "line" },
      kit.element("span", { class: "layer", "aria-hidden": "true" }, "layer " + (l + 1)), ...buttons));
  }
  return kit.element("div", { class: "kind" }, kit.element("p", { class: "title" }, TITLES[name]), ...lines);
});
const overview = kit.element("div", { class: "overview", role: "radiogroup", "aria-label": "Attention map" }, ...groups);

function move(event) {
  const at = rows.findIndex(function (row) { return row.kind === kind && row.layer === layer; });
  const heads = rows[at].buttons.length;
  const across = { ArrowRight: head + 1, ArrowLeft: head - 1, Home: 0, End: heads - 1 };
  const along = { ArrowDown: at + 1, ArrowUp: at - 1 };
  if (!(event.key in across) && !(event.key in along)) return;
  event.preventDefault();
  const row = event.key in along ? rows[(along[event.key] + rows.length) % rows.length] : rows[at];
  const next = event.key in across ? (across[event.key] + heads) % heads : Math.min(head, row.buttons.length - 1);
  choose(row.kind, row.layer, next);
  row.buttons[next].focus();
}

const queryChoices = {};
KINDS.forEach(function (name) {
  const labels = rowNames[name].map(function (token, index) {
    return name === "encoder" ? token : token + " → " + data.written[index];
  });
  const first = name === kind ? query : 0;
  queryChoices[name] = kit.choices("Query", labels, first, function (index) { query = index; draw(); });
});
const queries = kit.element("div", { class: "queries" });
const large = kit.element("div", { class: "large" });
const numbers = kit.element("div", { class: "numbers" });
kit.root.append(overview, queries, kit.element("div", { class: "row" }, large, numbers));

function choose(newKind, newLayer, newHead) {
  if (newKind !== kind) query = queryChoices[newKind].value();
  kind = newKind;
  layer = newLayer;
  head = newHead;
  draw();
}

// The chosen map, large: a name at every row and column, more ink for more weight, a frame around the query's row.
function enlarge() {
  const map = weights[kind];
  const [, , count, columns] = map.shape;
  const cell = Math.max(12, Math.min(24, Math.floor(340 / Math.max(count, columns))));
  const longest = function (names) { return Math.max(...names.map(function (name) { return name.length; })); };
  const left = 8 + 7.2 * Math.min(14, longest(rowNames[kind]));
  const top = 10 + 6.4 * Math.min(14, longest(keyNames[kind]));
  const width = left + columns * cell + 0.55 * top + 2;
  const height = top + count * cell + 2;
  const picture = kit.svg("svg", { class: "map", role: "img", width: width, height: height,
    viewBox: "0 0 " + width + " " + height });
  keyNames[kind].forEach(function (name, j) {
    const x = left + (j + 0.6) * cell;
    picture.append(kit.svg("text", { x: x, y: top - 5,
      transform: "rotate(-60 " + x + " " + (top - 5) + ")" }, name));
  });
  rowNames[kind].forEach(function (name, i) {
    picture.append(kit.svg("text", { x: left - 5, y: top + (i + 0.7) * cell, "text-anchor": "end",
      class: i === query ? "chosen" : "" }, name));
    for (let j = 0; j < columns; j++) {
      const weight = map.at(layer, head, i, j);
      picture.append(kit.svg("rect", { x: left + j * cell, y: top + i * cell, width: cell, height: cell,
        fill: "#2f7ed8", "fill-opacity": (0.95 * weight).toFixed(3), stroke: "currentColor", "stroke-opacity": 0.2,
        onclick: function () { queryChoices[kind].set(i); } },
      kit.svg("title", {}, name + " → " + keyNames[kind][j] + ": " + kit.number(weight))));
    }
  });
  picture.append(kit.svg("rect", { x: left, y: top + query * cell, width: columns * cell, height: cell, fill: "none",
    stroke: "#d2691e", "stroke-width": 2.5, "pointer-events": "none" }));
  return picture;
}

function draw() {
  rows.forEach(function (row) {
    row.buttons.forEach(function (button, h) {
      const chosen = row.kind === kind && row.layer === layer && h === head;
      button.setAttribute("aria-checked", chosen ? "true" : "false");
      button.tabIndex = chosen ? 0 : -1;
    });
  });
  if (queries.firstChild !== queryChoices[kind].node) queries.replaceChildren(queryChoices[kind].node);
  const row = keyNames[kind].map(function (_, j) { return weights[kind].at(layer, head, query, j); });
  const place = "Layer " + (layer + 1) + ", head " + (head + 1);
  const asking = "“" + rowNames[kind][query] + "”";
  const picture = enlarge();
  picture.setAttribute("aria-label", TITLES[kind] + ". " + place + ": " + row.length + " keys by " +
    rowNames[kind].length + " queries; the table beside it gives the row of " + asking + " in numbers");
  large.replaceChildren(kit.element("p", { class: "title" }, TITLES[kind] + ". " + place), picture);
  const table = kit.bars("What " + asking + " attends to", ["key", "weight"], keyNames[kind], 3);
  table.set(row, {});
  numbers.replaceChildren(table.node);
  const order = row.map(function (_, j) { return j; }).sort(function (a, b) { return row[b] - row[a]; });
  const most = order.filter(function (j) { return row[j] >= 0.0005; }).slice(0, 2).map(function (j) {
    return "“" + keyNames[kind][j] + "” (" + kit.number(row[j]) + ")";
  });
  const writing = kind === "encoder" ? "" : ", about to write “" + data.written[query] + "”,";
  kit.announce(place + " (" + kind + "): " + asking + writing + " attends most to " + most.join(", then ") + ".");
}
draw();
