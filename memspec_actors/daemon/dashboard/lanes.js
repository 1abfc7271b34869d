// Draw the drafts' lanes: the last 30 seconds, now at the right; under them the tokens of every iteration.

export const LANE = 38;
const WINDOW_S = 30;
const BARS = 44;
const AXIS = 16;

export function colorOf(names, name) {
  const index = names.indexOf(name);
  return style(index < 0 ? "--draft-none" : `--draft-${index % 6}`);
}

export function style(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function drawLanes(canvas, state, now) {
  const names = [...state.drafts.keys()];
  const width = canvas.clientWidth;
  const height = names.length * LANE + BARS + AXIS;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const x = (at) => width - ((now - at) / WINDOW_S) * width;
  names.forEach((name, lane) => drawLane(pen, state, name, colorOf(names, name), lane * LANE, x, now, width));
  drawMarks(pen, state, names, x);
  drawIterations(pen, state, names, names.length * LANE, x, width);
  drawAxis(pen, height, width, now, x);
}

function drawLane(pen, state, name, color, top, x, now, width) {
  pen.strokeStyle = style("--line");
  pen.strokeRect(-1, top + 5.5, width + 2, LANE - 11);
  for (const segment of state.drafts.get(name)) {
    const from = Math.max(-2, x(segment.from));
    const to = Math.min(width, x(segment.to ?? now));
    if (to < 0) continue;
    const box = [from, top + 6, Math.max(1.5, to - from), LANE - 12];
    pen.globalAlpha = { active: 1, resident: 0.32, loading: 0.9, revoked: 0.45 }[segment.state];
    pen.fillStyle = segment.state === "loading" ? hatch(pen, color) : segment.state === "revoked" ? style("--draft-none") : color;
    pen.fillRect(...box);
    pen.globalAlpha = 1;
  }
}

function hatch(pen, color) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const ink = tile.getContext("2d");
  ink.strokeStyle = color;
  ink.lineWidth = 1.6;
  for (const shift of [-6, 0, 6]) {
    ink.moveTo(shift, 6);
    ink.lineTo(shift + 6, 0);
  }
  ink.stroke();
  return pen.createPattern(tile, "repeat");
}

function drawMarks(pen, state, names, x) {
  pen.fillStyle = style("--ink");
  for (const { at, draft } of state.marks) {
    const lane = names.indexOf(draft);
    if (lane < 0 || x(at) < 0) continue;
    pen.beginPath();
    pen.arc(x(at), lane * LANE + 6, 2, 0, 7);
    pen.fill();
  }
}

function drawIterations(pen, state, names, top, x, width) {
  const most = Math.max(4, ...state.iterations.map((i) => i.emitted));
  pen.fillStyle = style("--muted");
  pen.font = "11px system-ui, sans-serif";
  for (const iteration of state.iterations) {
    const right = x(iteration.ts);
    if (right < 0) continue;
    const wide = Math.max(1, ((iteration.wall_us / 1e6) / WINDOW_S) * width - 0.5);
    const tall = (iteration.emitted / most) * (BARS - 8);
    pen.fillStyle = colorOf(names, iteration.draft?.name);
    pen.fillRect(right - wide, top + BARS - tall, wide, tall);
  }
}

function drawAxis(pen, height, width, now, x) {
  pen.fillStyle = style("--muted");
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "bottom";
  for (const ago of width < 400 ? [20, 10] : [25, 20, 15, 10, 5]) {
    pen.textAlign = "center";
    pen.fillText(`${ago} s`, x(now - ago), height);
  }
  pen.textAlign = "right";
  pen.fillText("now", width, height);
}
