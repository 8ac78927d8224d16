// The shared half of every explorer. `mount` gives each host element a Shadow DOM and calls the explorer's own
// `render(data, kit)`. Everything in `kit` works by mouse, by touch and by keyboard, and has a name for screen readers.

function mount(identity, css, data, render) {
  // A page may show the same explorer twice; each host is filled once.
  document.querySelectorAll('[data-explorer="' + identity + '"]:not([data-ready])').forEach(function (host) {
    host.dataset.ready = "yes";
    const shadow = host.attachShadow({ mode: "open" });
    const style = document.createElement("style");
    style.textContent = css;
    const root = document.createElement("div");
    root.className = "root";
    const live = document.createElement("p");
    live.className = "live";
    live.setAttribute("role", "status");
    shadow.append(style, root, live);
    render(data, makeKit(root, live));
  });
}

function makeKit(root, live) {
  const SVG = "http://www.w3.org/2000/svg";
  let names = 0;

  // element("button", {class: "key", onclick: f}, "text", otherElement)
  function fill(node, attributes, children) {
    Object.entries(attributes || {}).forEach(function ([name, value]) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
    });
    node.append(...children);
    return node;
  }
  function element(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }
  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
  }

  // A labelled slider; `show` turns its value into words. Returns {node, value(), set(v)}.
  function slider(label, options, onChange) {
    const show = options.show || String;
    const output = element("output", {});
    const input = element("input", {
      type: "range", min: options.min, max: options.max, step: options.step || 1, "aria-label": label,
    });
    function changed() {
      const words = show(Number(input.value));
      output.textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
    input.value = options.value;
    changed();
    input.addEventListener("input", function () { changed(); onChange(Number(input.value)); });
    return {
      node: element("label", { class: "slider" }, element("span", {}, label), input, output),
      value: function () { return Number(input.value); },
      set: function (value) { input.value = value; changed(); onChange(Number(input.value)); },
    };
  }

  // One of several, as buttons in a row: arrow keys, Home and End move. Returns {node, value(), set(index)}.
  function choices(label, options, start, onChange) {
    const id = "name" + names++;
    let chosen = start;
    const buttons = options.map(function (text, index) {
      return element("button", {
        type: "button", role: "radio", onclick: function () { set(index); },
        onkeydown: function (event) {
          const last = options.length - 1;
          const moves = {
            ArrowRight: chosen === last ? 0 : chosen + 1, ArrowDown: chosen === last ? 0 : chosen + 1,
            ArrowLeft: chosen === 0 ? last : chosen - 1, ArrowUp: chosen === 0 ? last : chosen - 1,
            Home: 0, End: last,
          };
          if (!(event.key in moves)) return;
          event.preventDefault();
          set(moves[event.key]);
          buttons[chosen].focus();
        },
      }, text);
    });
    function mark() {
      buttons.forEach(function (button, index) {
        button.setAttribute("aria-checked", index === chosen ? "true" : "false");
        button.tabIndex = index === chosen ? 0 : -1;
      });
    }
    function set(index) {
      chosen = index;
      mark();
      onChange(index);
    }
    mark();
    const name = element("span", { class: "name", id: id }, label);
    const group = element("div", { class: "options", role: "radiogroup", "aria-labelledby": id }, ...buttons);
    return {
      node: element("div", { class: "choices" }, name, group),
      value: function () { return chosen; },
      set: set,
    };
  }

  // A table of named bars, each with its number: length and digits say the same. Returns {node, set(values, options)}.
  function bars(caption, columnName, names, digits) {
    const title = element("caption", {}, caption);
    const rows = names.map(function (name) {
      const bar = element("span", { class: "bar" });
      const number = element("td", { class: "number" });
      const row = element("tr", {}, element("th", { scope: "row" }, name), number,
        element("td", { class: "track", "aria-hidden": "true" }, bar));
      return { row: row, bar: bar, number: number };
    });
    const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, columnName[0]),
      element("th", { scope: "col" }, columnName[1]), element("td", { "aria-hidden": "true" })));
    const table = element("table", { class: "bars" }, title, head,
      element("tbody", {}, ...rows.map(function (entry) { return entry.row; })));
    return {
      node: table,
      set: function (values, options) {
        const top = (options && options.top) || 1;
        if (options && options.caption) title.textContent = options.caption;
        let best = 0;
        for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
        rows.forEach(function (entry, index) {
          entry.bar.style.width = (100 * Math.max(0, values[index]) / top).toFixed(2) + "%";
          entry.number.textContent = number(values[index], digits);
          entry.row.className = index === best ? "best" : "";
        });
      },
    };
  }

  function number(value, digits) {
    return Number(value).toFixed(digits === undefined ? 3 : digits);
  }

  // Undo lecturelib.figures.explorers.explorer.pack: {shape, values: Float32Array, at(i, j, ...)}.
  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.f4), function (c) { return c.charCodeAt(0); });
    const values = new Float32Array(bytes.buffer);
    return {
      shape: packed.shape,
      values: values,
      at: function (...index) {
        return values[index.reduce(function (flat, i, axis) { return flat * packed.shape[axis] + i; }, 0)];
      },
    };
  }

  function softmax(scores) {
    const top = Math.max(...scores);
    const raised = scores.map(function (score) { return Math.exp(score - top); });
    const total = raised.reduce(function (a, b) { return a + b; }, 0);
    return raised.map(function (value) { return value / total; });
  }

  return {
    root: root, element: element, svg: svg, slider: slider, choices: choices, bars: bars,
    number: number, unpack: unpack, softmax: softmax,
    announce: function (text) { live.textContent = text; }, // shown, and read out by screen readers when it changes
  };
}
