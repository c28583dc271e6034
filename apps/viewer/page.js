"use strict";

const WINDOWS = [
  ["soft tissue", -160, 240], ["lung", -1350, 150], ["bone", -450, 1050], ["brain", 0, 80], ["liver", 0, 160],
];
const VIEWS = ["0", "1", "2", "3", "4"]; // keys 1 to 5; NiiVue's numbers

const element = (id) => document.getElementById(id);
const shown = JSON.parse(element("case").textContent);
const nv = new niivue.Niivue({
  isRadiologicalConvention: true,
  sagittalNoseLeft: true,
  backColor: [0.055, 0.067, 0.086, 1],
  crosshairColor: [1, 1, 1, 0.45],
  crosshairWidth: 1,
  crosshairWidthUnit: "mm",
  multiplanarShowRender: niivue.SHOW_RENDER.NEVER,
  multiplanarLayout: niivue.MULTIPLANAR_TYPE.AUTO,
  dragAndDropEnabled: false,
  viewModeHotKey: "",
  clipPlaneHotKey: "",
  cycleClipPlaneHotKey: "",
  loadingText: "",
  logLevel: "silent",
});
const hidden = new Set();

function labelColours() {
  const table = { R: [0], G: [0], B: [0], A: [0], I: [0], labels: ["background"] };
  for (const [at, { name, rgb }] of shown.structures.entries()) {
    "RGB".split("").forEach((part, index) => table[part].push(rgb[index]));
    table.A.push(hidden.has(at) ? 0 : 255);
    table.I.push(at + 1);
    table.labels.push(name);
  }
  return table;
}

function recolourLabels() {
  nv.volumes[1].setColormapLabel(labelColours());
  nv.updateGLVolume();
}

function goTo(millimetres) {
  nv.scene.crosshairPos = nv.mm2frac([...millimetres, 1]);
  nv.createOnLocationChange();
  nv.drawScene();
}

function chooseView(value) {
  element("view").value = value;
  nv.setSliceType(Number(value));
}

function chooseWindow(index) {
  element("window").selectedIndex = index;
  [, nv.volumes[0].cal_min, nv.volumes[0].cal_max] = WINDOWS[index];
  nv.updateGLVolume();
}

function fadeLabels(opacity) {
  element("opacity").value = opacity;
  nv.setOpacity(1, Number(opacity));
}

function tell({ mm, values }) {
  const [x, y, z] = Array.from(mm, (part) => Math.round(part));
  const place = `${Math.abs(x)} mm ${x < 0 ? "L" : "R"}, ${Math.abs(y)} mm ${y < 0 ? "P" : "A"}, `
    + `${Math.abs(z)} mm ${z < 0 ? "I" : "S"}`;
  const label = shown.structures[Math.round(values[1].value) - 1];
  element("where").textContent = [place, `${Math.round(values[0].value)} HU`, label?.name].filter(Boolean).join(" · ");
}

function row({ name, rgb, ml, place }, at) {
  const line = document.createElement("tr");
  const [box, button] = [document.createElement("input"), document.createElement("button")];
  Object.assign(box, { type: "checkbox", checked: true, ariaLabel: `show ${name}` });
  box.style.accentColor = `rgb(${rgb.join(" ")})`;
  box.addEventListener("change", () => {
    if (box.checked) hidden.delete(at);
    else hidden.add(at);
    recolourLabels();
  });
  button.textContent = name;
  button.addEventListener("click", () => goTo(place));
  [box, button, ml.toFixed(ml < 10 ? 2 : ml < 100 ? 1 : 0)].forEach((content) => line.insertCell().append(content));
  return line;
}

// A step along x, y, z in voxels; on the screen the patient's right is left, so the left arrow goes to the right.
const STEPS = {
  ArrowLeft: [1, 0, 0], ArrowRight: [-1, 0, 0], ArrowUp: [0, 0, 1], ArrowDown: [0, 0, -1], PageUp: [0, 1, 0],
  PageDown: [0, -1, 0],
};
let opacity = "0.5";
const KEYS = {
  l: () => fadeLabels(element("opacity").value === "0" ? opacity : "0"),
  w: () => chooseWindow((element("window").selectedIndex + 1) % WINDOWS.length),
};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
  if (event.key in STEPS) nv.moveCrosshairInVox(...STEPS[event.key]);
  else if (event.key in KEYS) KEYS[event.key]();
  else if (VIEWS[event.key - 1]) chooseView(VIEWS[event.key - 1]);
  else return;
  event.preventDefault();
  event.stopPropagation(); // NiiVue has keys of its own
}

async function start() {
  const [scan, labels] = await Promise.all([
    niivue.NVImage.loadFromBase64({ base64: shown.scan, name: "scan.nii.gz" }),
    niivue.NVImage.loadFromBase64({ base64: shown.labels, name: "labels.nii.gz", opacity: 0.5 }),
    nv.attachToCanvas(element("canvas")),
  ]);
  [, scan.cal_min, scan.cal_max] = WINDOWS[0];
  labels.setColormapLabel(labelColours());
  nv.onLocationChange = tell;
  nv.volumes = [scan]; // drawn together with the labels, once
  nv.addVolume(labels);
  element("structures").append(...shown.structures.map(row));
  element("window").append(...WINDOWS.map(([name]) => new Option(name)));
  element("view").addEventListener("change", (event) => chooseView(event.target.value));
  element("window").addEventListener("change", (event) => chooseWindow(event.target.selectedIndex));
  element("opacity").addEventListener("input", (event) => fadeLabels((opacity = event.target.value)));
  window.addEventListener("keydown", press, true);
  const largest = shown.structures.reduce((one, other) => (other.ml > one.ml ? other : one), { ml: 0 });
  if (largest.place) goTo(largest.place);
  document.body.dataset.state = "ready";
}

start().catch((error) => {
  document.body.dataset.state = "failed";
  element("where").textContent = `The viewer cannot run here (${error.message}); the contact sheet beside it can be read.`;
});
