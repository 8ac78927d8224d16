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
  const picture = kit.matrix({ rows: rowNames[kind], columns: keyNames[kind], rowsName: "queries", columnsName: "keys",
    room: 460, onChoose: function (i) { queryChoices[kind].set(i); } });
  picture.paint(function (i, j) { return weights[kind].at(layer, head, i, j); }, function (i, j) {
    return rowNames[kind][i] + " → " + keyNames[kind][j] + ": " + kit.number(weights[kind].at(layer, head, i, j));
  });
  picture.choose(query);
  picture.describe(TITLES[kind] + ". " + place + ": " + row.length + " keys by " +
    rowNames[kind].length + " queries; the table beside it gives the row of " + asking + " in numbers");
  large.replaceChildren(kit.element("p", { class: "title" }, TITLES[kind] + ". " + place), picture.node);
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
