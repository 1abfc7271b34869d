// The dashboard: follow the event log, show where everything stands, and let a person try and steer it.

import { request, serverSent } from "./api.js";
import { LANE, colorOf, drawLanes, style } from "./lanes.js";
import { connectPrompt } from "./prompt.js";
import { State } from "./state.js";

const EXAMPLE = "caution Buspril for Femer, age 32; compose new_beto for Pulal, limit=50; gather 8 breamols for Waman";
const FRAME_MS = 50;
const IDLE_S = 3;
const RETRY_MS = 1000;
const SHARE_COLORS = ["--good", "--warn", "--draft-none", "--accent", "--bad"];

const element = (id) => document.getElementById(id);
const state = new State();
let model = "";
let lastId = 0;
let clockSkew = 0; // the daemon's clock less ours, in seconds

async function follow() {
  for (;;) {
    try {
      await connect();
    } catch (error) {
      health("gone", error.message.includes("models") ? "loading" : "unreachable");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function connect() {
  const models = await (await request("v1/models")).json();
  model = models.data[0].id;
  element("model").textContent = model;
  await showDrafts();
  health("ok", "ok");
  const reply = await request("events", { headers: { "Last-Event-ID": String(lastId) } });
  for await (const [id, data] of serverSent(reply)) {
    const event = JSON.parse(data);
    if (Number(id) < lastId) clockSkew = 0; // another daemon
    lastId = Number(id);
    state.add(event);
    clockSkew = Math.max(clockSkew, event.ts - Date.now() / 1000);
    if (event.event.startsWith("request_")) showRequests();
    if (event.event.startsWith("draft_") || event.event.startsWith("residency_")) draftsChanged = true;
  }
  health("gone", "disconnected");
}

function health(kind, text) {
  element("health").className = `pill ${kind}`;
  element("health").textContent = text;
}

// --- drafts ----------------------------------------------------------------------------------------------------------

let draftsChanged = false;

async function showDrafts() {
  const listed = await (await request("drafts")).json();
  state.know(listed.data, Date.now() / 1000 + clockSkew);
  const used = listed.resident_bytes + listed.reserved_bytes;
  element("memory").textContent =
    `${listed.capacity} places · ${mebibytes(used)} of ${mebibytes(listed.budget_bytes)} MiB`;
  const names = listed.data.map((draft) => draft.name);
  element("drafts").replaceChildren(...listed.data.map((draft) => draftRow(draft, names)));
  offerDrafts(names);
}

function offerDrafts(names) {
  const known = new Set([...element("draft").options].map((option) => option.value));
  for (const name of names) if (!known.has(name)) element("draft").add(new Option(name, name));
}

function draftRow(draft, names) {
  const row = document.createElement("div");
  row.className = "draft";
  row.style.height = `${LANE}px`;
  const name = document.createElement("div");
  const title = document.createElement("b");
  title.textContent = draft.name;
  title.style.color = colorOf(names, draft.name);
  const status = document.createElement("small");
  status.textContent = draft.active ? "active" : draft.status;
  name.append(title, status);
  const loaded = draft.status === "loaded" || draft.status === "loading";
  row.append(
    name,
    steer(draft.name, loaded ? "unload" : "load", loaded ? "unload" : "load", null, "toggle"),
    steer(draft.name, draft.pinned ? "unpin" : "pin", "pin", draft.pinned, "pin"),
  );
  return row;
}

function steer(name, wish, text, pressed, kind) {
  const button = document.createElement("button");
  button.className = `small ${kind}`;
  button.textContent = text;
  button.setAttribute("aria-label", `${wish} ${name}`);
  if (pressed !== null) button.setAttribute("aria-pressed", pressed);
  button.addEventListener("click", async () => {
    try {
      await request(`drafts/${encodeURIComponent(name)}/${wish}`, { method: "POST" });
      await showDrafts();
    } catch (error) {
      element("memory").textContent = error.message;
    }
  });
  return button;
}

// --- figures ---------------------------------------------------------------------------------------------------------

function showFigures(now) {
  const figures = state.figures();
  const idle = !figures || now - figures.at > IDLE_S;
  const show = (id, text) => {
    element(id).textContent = text;
    element(id).classList.toggle("idle", idle);
  };
  show("rate", figures ? figures.rate.toFixed(0) : "–");
  show("length", figures ? figures.length.toFixed(2) : "–");
  show("acceptance", figures && figures.acceptance !== null ? `${(100 * figures.acceptance).toFixed(0)} %` : "–");
  element("active").textContent = state.active ?? "none";
  element("active").style.color = state.active ? colorOf([...state.drafts.keys()], state.active) : "";
  element("waiting").textContent = Math.max(0, state.open.size - 1);
}

function showShares() {
  const shares = state.shares().filter(([, share]) => share > 0);
  const colors = Object.fromEntries(state.shares().map(([name], i) => [name, style(SHARE_COLORS[i])]));
  element("shares").replaceChildren(...shares.map(([name, share]) => block(name, share, colors[name])));
  element("share-legend").replaceChildren(...shares.map(([name, share]) => {
    const item = document.createElement("span");
    const key = document.createElement("i");
    key.className = "key";
    key.style.background = colors[name];
    item.append(key, `${name} ${(100 * share).toFixed(1)} %`);
    return item;
  }));
}

function block(name, share, color) {
  const part = document.createElement("span");
  part.style.width = `${100 * share}%`;
  part.style.background = color;
  part.title = `${name}: ${(100 * share).toFixed(1)} %`;
  return part;
}

function showRequests() {
  element("no-requests").hidden = state.requests.length > 0;
  element("requests").replaceChildren(...state.requests.map(requestRow));
}

function requestRow({ ts, usage, timing, speculative_decoding: drafts, scheduling, finish_reason: reason }) {
  const row = document.createElement("tr");
  const cells = [
    new Date(ts * 1000).toLocaleTimeString(),
    usage?.prompt_tokens ?? "",
    usage?.completion_tokens ?? "",
    timing ? timing.tokens_per_second.toFixed(0) : "",
    drafts?.num_spec_steps ? drafts.mean_acceptance_length.toFixed(2) : "",
    timing ? `${(1000 * timing.time_to_first_token_s).toFixed(0)} ms` : "",
    scheduling?.switches ?? "",
    reason,
  ];
  for (const text of cells) row.insertCell().textContent = text;
  return row;
}

function mebibytes(bytes) {
  return (bytes / 2 ** 20).toFixed(1);
}

// --- frames ----------------------------------------------------------------------------------------------------------

let drawnAt = 0;

function frame(at) {
  requestAnimationFrame(frame);
  if (at - drawnAt < FRAME_MS) return;
  drawnAt = at;
  const now = Date.now() / 1000 + clockSkew;
  drawLanes(element("timeline"), state, now);
  showFigures(now);
}

setInterval(() => {
  showShares();
  if (draftsChanged) {
    draftsChanged = false;
    showDrafts().catch(() => {});
  }
}, 500);

element("text").value = EXAMPLE;
connectPrompt(() => model);
requestAnimationFrame(frame);
follow();
