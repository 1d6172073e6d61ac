// Tooltips and highlighting; the page is complete without this script.
(() => {
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";

  const show = (event, text) => {
    tip.textContent = text;
    tip.style.display = "block";
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - width - 8);
    const below = event.clientY + 16;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + height > innerHeight ? event.clientY - height - 12 : below}px`;
  };
  const hide = () => { tip.style.display = "none"; };

  // Our own tooltips replace the slow ones of the browser; aria-label keeps the name of a picture.
  for (const title of document.querySelectorAll("svg > title")) title.remove();
  for (const title of document.querySelectorAll("svg g > title")) {
    const bar = title.parentNode;
    bar.dataset.tip = title.textContent;
    title.remove();
  }
  document.addEventListener("pointerover", (event) => {
    const bar = event.target.closest?.("[data-tip]");
    if (bar) show(event, bar.dataset.tip);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.target.closest?.("[data-tip]")) hide();
  });

  const clock = (seconds) => {
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = units.findIndex(([size]) => seconds >= size);
    if (first < 0) return `${Math.round(seconds * 1000)} ms`;
    const [size, name] = units[first];
    const whole = Math.floor(seconds / size);
    const next = units[first + 1];
    const rest = next ? Math.floor((seconds - whole * size) / next[0]) : 0;
    return `${whole} ${name}` + (rest ? ` ${rest} ${next[1]}` : "");
  };

  // A vertical line through all charts over time, with the value of every scheduler at that time.
  const names = [...document.querySelectorAll("thead th[data-s]")].map((th) => th.textContent);
  for (const group of document.querySelectorAll("g.lines")) {
    const svg = group.ownerSVGElement;
    const [left, right] = group.dataset.x.split(" ").map(Number);
    const series = [...group.querySelectorAll("[data-v]")]
      .map(({ dataset: { s, v, w, p } }) => ({
        index: +s, values: v.split(" "), parts: w?.split(" "), part: p,
      }))
      .sort((a, b) => a.index - b.index);
    const cross = group.appendChild(document.createElementNS(svg.namespaceURI, "path"));
    cross.setAttribute("class", "cross");
    svg.addEventListener("pointermove", (event) => {
      if (event.target.closest("[data-tip]")) { cross.removeAttribute("d"); return; }
      const box = svg.getBoundingClientRect();
      const { width, height } = svg.viewBox.baseVal;
      const x = ((event.clientX - box.left) / box.width) * width;
      if (x < left || x > right) { cross.removeAttribute("d"); hide(); return; }
      const share = (x - left) / (right - left);
      const said = series.map(({ index, values, parts, part }) => {
        const at = Math.min(values.length - 1, Math.floor(share * values.length));
        const unit = group.dataset.u;
        return `${names[index]}: ${values[at]} ${unit}` + (parts ? `, ${parts[at]} ${unit} ${part}` : "");
      });
      cross.setAttribute("d", `M${x} 10V${height - 24}`);
      show(event, [clock(share * group.dataset.t), ...said].join("\n"));
    });
    svg.addEventListener("pointerleave", () => { cross.removeAttribute("d"); hide(); });
  }

  // Hovering over the name of a scheduler highlights it in all charts; a click keeps it highlighted.
  let kept = null;
  const focus = (index) => {
    document.body.classList.toggle("focus", index !== null);
    for (const part of document.querySelectorAll("[data-s]"))
      part.classList.toggle("chosen", part.dataset.s === index);
  };
  for (const item of document.querySelectorAll(".legend li[data-s]")) {
    item.tabIndex = 0;
    item.setAttribute("role", "button");
    item.addEventListener("pointerenter", () => focus(item.dataset.s));
    item.addEventListener("pointerleave", () => focus(kept));
    const keep = () => { kept = kept === item.dataset.s ? null : item.dataset.s; focus(kept); };
    item.addEventListener("click", keep);
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); keep(); }
    });
  }
})();
