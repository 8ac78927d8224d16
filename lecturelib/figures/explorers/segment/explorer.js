// Prompt encoder and mask decoder of a PromptableSegmenter, in plain JavaScript. A matrix is a Float32Array, row by row.
const [height, width] = data.size, [rows, columns] = data.grid, regions = rows * columns;

function bytes(text) { // base64 -> Uint8Array
  return Uint8Array.from(atob(text), function (c) { return c.charCodeAt(0); });
}

function halves(text) { // base64 float16 -> Float32Array
  const bits = new Uint16Array(bytes(text).buffer);
  return Float32Array.from(bits, function (h) {
    const sign = h & 0x8000 ? -1 : 1, exponent = (h >> 10) & 31, fraction = h & 1023;
    return sign * (exponent ? Math.pow(2, exponent - 15) * (1 + fraction / 1024) : Math.pow(2, -24) * fraction);
  });
}

const small = halves(data.weights), codes = new Int8Array(bytes(data.codes).buffer), scales = halves(data.scales);
const weights = {};
let used = 0, coded = 0, scaled = 0;
Object.entries(data.shapes).forEach(function ([name, shape]) {
  const size = shape.reduce(function (a, b) { return a * b; }, 1);
  if (shape.length < 2 || size < data.large) {
    weights[name] = small.subarray(used, used += size);
  } else { // 8 bits, and a scale for each row
    const row = size / shape[0], first = scaled;
    weights[name] = Float32Array.from(codes.subarray(coded, coded += size), function (code, i) {
      return code * scales[first + Math.floor(i / row)];
    });
    scaled += shape[0];
  }
});
const D = data.shapes["decoder.mask_tokens"][1];
const features = data.features.map(halves);

function linear(x, name) { // x W^T + b for every row
  const W = weights[name + ".weight"], b = weights[name + ".bias"], [out, inner] = data.shapes[name + ".weight"];
  const count = x.length / inner, y = new Float32Array(count * out);
  for (let r = 0; r < count; r++) {
    for (let o = 0; o < out; o++) {
      let sum = b[o];
      for (let i = 0; i < inner; i++) sum += x[r * inner + i] * W[o * inner + i];
      y[r * out + o] = sum;
    }
  }
  return y;
}

function norm(x, name, eps) { // layer norm of every row
  const scale = weights[name + ".weight"], shift = weights[name + ".bias"], n = scale.length, y = new Float32Array(x.length);
  for (let r = 0; r < x.length; r += n) {
    let mean = 0, square = 0;
    for (let i = 0; i < n; i++) mean += x[r + i] / n;
    for (let i = 0; i < n; i++) square += (x[r + i] - mean) * (x[r + i] - mean) / n;
    const by = 1 / Math.sqrt(square + eps);
    for (let i = 0; i < n; i++) y[r + i] = (x[r + i] - mean) * by * scale[i] + shift[i];
  }
  return y;
}

const plus = function (x, y) { return x.map(function (value, i) { return value + y[i]; }); };
const relu = function (x) { return x.map(function (value) { return Math.max(0, value); }); };
function erf(x) { // Abramowitz and Stegun 7.1.26, wrong by less than 2e-7
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - tail * Math.exp(-x * x));
}
const gelu = function (x) { return x.map(function (v) { return v * 0.5 * (1 + erf(v / Math.SQRT2)); }); };

function attend(name, query, key, value) {
  const q = linear(query, name + ".query_proj"), k = linear(key, name + ".key_proj");
  const v = linear(value, name + ".value_proj"), inner = data.shapes[name + ".query_proj.weight"][0];
  const dim = inner / data.heads, many = q.length / inner, keys = k.length / inner, out = new Float32Array(q.length);
  for (let h = 0; h < inner; h += dim) {
    for (let i = 0; i < many; i++) {
      const scores = new Array(keys);
      for (let j = 0; j < keys; j++) {
        let dot = 0;
        for (let d = h; d < h + dim; d++) dot += q[i * inner + d] * k[j * inner + d];
        scores[j] = dot / Math.sqrt(dim);
      }
      kit.softmax(scores).forEach(function (weight, j) {
        for (let d = h; d < h + dim; d++) out[i * inner + d] += weight * v[j * inner + d];
      });
    }
  }
  return linear(out, name + ".out_proj");
}

function perceptron(x, name) { // an MLP with two hidden layers; relu and dropout stand between the linear maps
  return linear(relu(linear(relu(linear(x, name + ".layers.0")), name + ".layers.3")), name + ".layers.6");
}

function fourier(x, y) { // where a point lies, from 0 to 1, as sines and cosines
  const directions = weights["prompt.positions.directions"], half = D / 2, out = new Float32Array(D);
  for (let i = 0; i < half; i++) {
    const angle = 2 * Math.PI * ((2 * x - 1) * directions[i] + (2 * y - 1) * directions[half + i]);
    out[i] = Math.sin(angle);
    out[half + i] = Math.cos(angle);
  }
  return out;
}

const places = new Float32Array(regions * D);
for (let n = 0; n < regions; n++) {
  places.set(fourier((n % columns + 0.5) / columns, (Math.floor(n / columns) + 0.5) / rows), n * D);
}

function widen(x, name, high, wide, inner) { // a transposed convolution of 2 × 2 pixels that do not overlap
  const W = weights[name + ".weight"], b = weights[name + ".bias"], out = b.length;
  const y = new Float32Array(4 * high * wide * out);
  for (let r = 0; r < 2 * high; r++) {
    for (let c = 0; c < 2 * wide; c++) {
      const from = ((r >> 1) * wide + (c >> 1)) * inner, to = (r * 2 * wide + c) * out, corner = 2 * (r & 1) + (c & 1);
      for (let o = 0; o < out; o++) {
        let sum = b[o];
        for (let i = 0; i < inner; i++) sum += x[from + i] * W[(i * out + o) * 4 + corner];
        y[to + o] = sum;
      }
    }
  }
  return y;
}

// points: [{x, y, kind}] in pixels -> {logits: masks × pixels, quality: masks}
function segment(image, points) {
  const kinds = weights["prompt.kinds.weight"], asked = points.concat([{ kind: -1 }]); // a NOTHING ends the prompt
  const own = 1 + data.masks, origin = new Float32Array((own + asked.length) * D);
  origin.set(weights["decoder.quality_token"]);
  origin.set(weights["decoder.mask_tokens"], D);
  asked.forEach(function (point, p) {
    const kind = kinds.subarray((point.kind + 1) * D, (point.kind + 2) * D);
    const where = fourier((point.x + 0.5) / width, (point.y + 0.5) / height);
    origin.set(point.kind < 0 ? kind : plus(kind, where), (own + p) * D);
  });
  let tokens = origin, seen = features[image];
  for (let layer = 0; layer < data.layers; layer++) {
    const at = "decoder.blocks." + layer + ".", marked = plus(tokens, origin);
    tokens = layer ? plus(tokens, attend(at + "among", marked, marked, tokens)) : attend(at + "among", tokens, tokens, tokens);
    tokens = norm(tokens, at + "among_wiring.norm", 1e-5);
    tokens = norm(plus(tokens, attend(at + "look", plus(tokens, origin), plus(seen, places), seen)), at + "look_wiring.norm", 1e-5);
    const thought = linear(relu(linear(tokens, at + "feed_forward.widen")), at + "feed_forward.narrow");
    tokens = norm(plus(tokens, thought), at + "feed_forward_wiring.norm", 1e-5);
    const answered = attend(at + "answer", plus(seen, places), plus(tokens, origin), tokens);
    seen = norm(plus(seen, answered), at + "answer_wiring.norm", 1e-5);
  }
  tokens = plus(tokens, attend("decoder.last_look", plus(tokens, origin), plus(seen, places), seen));
  tokens = norm(tokens, "decoder.last_wiring.norm", 1e-5);
  let pixels = gelu(norm(widen(seen, "decoder.widen", rows, columns, D), "decoder.widen_norm", 1e-6));
  pixels = gelu(widen(pixels, "decoder.widen_again", 2 * rows, 2 * columns, D / 4));
  const logits = new Float32Array(data.masks * height * width), depth = D / 8;
  for (let m = 0; m < data.masks; m++) {
    const classifier = perceptron(tokens.subarray((1 + m) * D, (2 + m) * D), "decoder.hypernetworks." + m);
    for (let p = 0; p < height * width; p++) {
      let sum = 0;
      for (let d = 0; d < depth; d++) sum += classifier[d] * pixels[p * depth + d];
      logits[m * height * width + p] = sum;
    }
  }
  return { logits: logits, quality: perceptron(tokens.subarray(0, D), "decoder.quality_head") };
}

// What is on the page.
let image = data.start[0], chosen = 0, answer = null;
const several = data.masks > 1; // then a click is answered by all masks but the first, and more points by the first alone
function offered() {
  const all = Array.from({ length: data.masks }, function (_, m) { return m; });
  return several ? (points.length > 1 ? [0] : all.slice(1)) : all;
}
let cursor = { x: data.start[1], y: data.start[2] };
let points = [{ x: cursor.x, y: cursor.y, kind: 1 }];
const scale = 7;

const pictures = data.pictures.map(function (text) {
  const bytes = Uint8Array.from(atob(text), function (c) { return c.charCodeAt(0); });
  const picture = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) picture.data[4 * i + c] = bytes[data.channels * i + (data.channels === 3 ? c : 0)];
    picture.data[4 * i + 3] = 255;
  }
  return picture;
});
function paint(canvas, mask) { // the image; where a mask is given, dim outside it
  canvas.width = width;
  canvas.height = height;
  const picture = new ImageData(new Uint8ClampedArray(pictures[image].data), width, height);
  if (mask) {
    for (let p = 0; p < width * height; p++) {
      if (!mask[p]) for (let c = 0; c < 3; c++) picture.data[4 * p + c] = 0.35 * picture.data[4 * p + c];
    }
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}
function maskOf(number) {
  return answer.logits.subarray(number * width * height, (number + 1) * width * height).map(function (z) { return z > 0 ? 1 : 0; });
}
function sizeOf(number) { return maskOf(number).reduce(function (sum, pixel) { return sum + pixel; }, 0); }
function outline(mask) { // the sides of pixels at which a mask ends
  let path = "";
  const inside = function (x, y) { return x >= 0 && y >= 0 && x < width && y < height && mask[y * width + x]; };
  for (let y = 0; y <= height; y++) {
    for (let x = 0; x <= width; x++) {
      if (inside(x, y) !== inside(x, y - 1)) path += "M" + x * scale + " " + y * scale + "h" + scale;
      if (inside(x, y) !== inside(x - 1, y)) path += "M" + x * scale + " " + y * scale + "v" + scale;
    }
  }
  return path;
}

const imageChoice = kit.choices("Image", data.names, image, function (index) { image = index; points = []; draw(); });
const kindChoice = kit.choices("A click says", ["+ this belongs", "− this does not"], 0, function () {});
const canvas = kit.element("canvas", { "aria-hidden": "true" });
const edge = kit.svg("path", { class: "edge" }), halo = kit.svg("path", { class: "halo" });
const dots = kit.svg("g", {}), cross = kit.svg("path", { class: "cross" });
const overlay = kit.svg("svg", { viewBox: "0 0 " + width * scale + " " + height * scale, "aria-hidden": "true" },
  halo, edge, dots, cross);
const stage = kit.element("div", { class: "stage", tabindex: 0, role: "application",
  "aria-label": "Image. Arrow keys move the cursor, with Shift by five pixels; Enter or Space clicks; Backspace takes a point back." },
  canvas, overlay);
stage.style.aspectRatio = width + " / " + height;

function click() {
  points = points.concat([{ x: cursor.x, y: cursor.y, kind: kindChoice.value() === 0 ? 1 : 0 }]);
  draw();
}
stage.addEventListener("pointerdown", function () { stage.classList.add("pointed"); });
stage.addEventListener("click", function (event) {
  const box = stage.getBoundingClientRect();
  const at = function (part, whole, count) { return Math.min(count - 1, Math.max(0, Math.floor(part / whole * count))); };
  cursor = { x: at(event.clientX - box.left, box.width, width), y: at(event.clientY - box.top, box.height, height) };
  click();
});
stage.addEventListener("keydown", function (event) {
  const step = event.shiftKey ? 5 : 1;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
  if (event.key in moves) {
    stage.classList.remove("pointed");
    cursor = { x: Math.min(width - 1, Math.max(0, cursor.x + moves[event.key][0])),
      y: Math.min(height - 1, Math.max(0, cursor.y + moves[event.key][1])) };
    move();
  } else if (event.key === "Enter" || event.key === " ") click();
  else if (event.key === "Backspace") undo();
  else return;
  event.preventDefault();
});

function undo() { points = points.slice(0, -1); draw(); }
const thumbs = Array.from({ length: data.masks }, function () { return kit.element("canvas", { "aria-hidden": "true" }); });
const shares = Array.from({ length: data.masks }, function () { return kit.element("span", { class: "share" }); });
const skipped = several ? 1 : 0; // masks that are not among the choices
const maskChoice = kit.choices("Masks of one click", kit.counted(data.masks - skipped), 0, function (index) {
  chosen = index + skipped;
  show();
});
const offers = maskChoice.node.querySelectorAll("button");
offers.forEach(function (button, index) { button.replaceChildren(thumbs[index + skipped], shares[index + skipped]); });
maskChoice.node.classList.add("offers");
const only = several ? kit.element("div", { class: "offers only", hidden: true },
  kit.element("span", { class: "name" }, "Mask of several points"), kit.element("div", { class: "thumb" }, thumbs[0], shares[0])) : null;
const undoButton = kit.element("button", { type: "button", onclick: undo }, "Take back");
const resetButton = kit.element("button", { type: "button", onclick: function () { points = []; draw(); } }, "Start anew");
kit.root.append(imageChoice.node, kindChoice.node, kit.element("div", { class: "row" }, stage,
  kit.element("div", { class: "beside" }, maskChoice.node, ...(several ? [only] : []),
    kit.element("p", { class: "note" }, "The number is the IoU that the model predicts for the mask."),
    kit.element("div", { class: "options" }, undoButton, resetButton))));

function move() { // the cursor has moved
  const x = (cursor.x + 0.5) * scale, y = (cursor.y + 0.5) * scale;
  cross.setAttribute("d", "M" + (x - 9) + " " + y + "h18M" + x + " " + (y - 9) + "v18");
  if (!stage.classList.contains("pointed") && answer) {
    const within = maskOf(chosen)[cursor.y * width + cursor.x] ? "inside" : "outside";
    kit.announce("Cursor at column " + (cursor.x + 1) + ", row " + (cursor.y + 1) + ", " + within + " the mask.");
  }
}

function draw() { // points or image have changed
  answer = points.length ? segment(image, points) : null;
  stage.answer = answer;
  const now = offered();
  if (only) {
    only.hidden = now.length > 1;
    maskChoice.node.hidden = now.length === 1;
  }
  chosen = now[0];
  now.forEach(function (m) { if (answer && answer.quality[m] > answer.quality[chosen]) chosen = m; });
  if (now.length > 1) maskChoice.set(chosen - skipped); // which shows it
  else show();
}

function show() { // the chosen mask, and all on offer
  const mask = answer ? maskOf(chosen) : null;
  paint(canvas, mask);
  offered().forEach(function (m) {
    const share = answer ? kit.number(answer.quality[m], 2) : "–";
    paint(thumbs[m], answer ? maskOf(m) : null);
    shares[m].textContent = share;
    if (m >= skipped) {
      offers[m - skipped].setAttribute("aria-label", "Mask " + (m - skipped + 1) + (answer ? ", predicted IoU " + share : ""));
    }
  });
  const path = mask ? outline(mask) : "";
  edge.setAttribute("d", path);
  halo.setAttribute("d", path);
  dots.replaceChildren(...points.flatMap(function (point) {
    const x = (point.x + 0.5) * scale, y = (point.y + 0.5) * scale, sign = "M" + (x - 4) + " " + y + "h8";
    return [kit.svg("circle", { class: point.kind ? "belongs" : "not", cx: x, cy: y, r: 8 }),
      kit.svg("path", { class: "sign", d: point.kind ? sign + "M" + x + " " + (y - 4) + "v8" : sign })];
  }));
  undoButton.disabled = resetButton.disabled = !points.length;
  move();
  if (!answer) {
    kit.announce("No points yet. Click on something in the image.");
    return;
  }
  const rank = function (a, b) { return answer.quality[b] - answer.quality[a]; }, now = offered().sort(rank);
  const claim = ", predicted IoU " + kit.number(answer.quality[chosen], 2) + ": " + sizeOf(chosen) + " pixels.";
  const others = now.filter(function (m) { return m !== chosen; }).map(sizeOf);
  kit.announce(points.length === 1 && several ? "One point. Mask " + chosen + " of " + now.length + ", ranked " +
    (now.indexOf(chosen) + 1) + claim + " The others: " + others.join(" and ") + "."
    : (points.length === 1 ? "One point" : points.length + " points") + ", one mask" + claim);
}
draw();
