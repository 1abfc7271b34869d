// What the events say: which draft stands where and since when, and what the last iterations did.

const KEPT_ITERATIONS = 200;
const KEPT_REQUESTS = 20;
const KEPT_S = 120;

export class State {
  constructor() {
    this.begin({});
  }

  begin(drafts) {
    this.drafts = new Map(Object.keys(drafts).map((name) => [name, []])); // name -> segments {state, from, to}
    this.resident = new Set();
    this.active = null;
    this.iterations = [];
    this.marks = []; // {at, draft}: ranked first
    this.requests = [];
    this.open = new Set();
  }

  /** Take in what the daemon lists, for drafts of which no event has told. */
  know(listed, at) {
    for (const { name, status, active } of listed) {
      if (!this.drafts.has(name)) this.drafts.set(name, []);
      if (this.drafts.get(name).length || status !== "loaded") continue;
      this.resident.add(name);
      if (active) this.active = name;
      this.set(name, active ? "active" : "resident", at);
    }
  }

  /** Take in one record of the event log. */
  add(event) {
    const name = event.draft?.name;
    switch (event.event) {
      case "system_started": return this.begin(event.drafts);
      case "draft_load_started": return this.set(name, "loading", event.ts);
      case "draft_load_failed":
      case "draft_load_cancelled":
      case "draft_evicted": return this.set(name, null, event.ts);
      case "draft_revoked": return this.set(name, "revoked", event.ts);
      case "residency_announced": return this.announce(event.resident.map((draft) => draft.name), event.ts);
      case "draft_activated": return this.activate(name ?? null, event.ts);
      case "prediction_made": return this.mark(event);
      case "iteration": return this.iterate(event);
      case "request_accepted": return this.open.add(event.request_id);
      case "request_finished": return this.finish(event);
    }
  }

  set(name, state, at) {
    const segments = this.drafts.get(name);
    if (!segments) return;
    const last = segments.at(-1);
    if (last && last.to === null) {
      if (last.state === state) return;
      last.to = at;
    }
    if (state) segments.push({ state, from: at, to: null });
    while (segments.length && segments[0].to !== null && segments[0].to < at - KEPT_S) segments.shift();
  }

  stateOf(name) {
    const last = this.drafts.get(name)?.at(-1);
    return last && last.to === null ? last.state : null;
  }

  announce(names, at) {
    this.resident = new Set(names);
    for (const name of names) this.set(name, name === this.active ? "active" : "resident", at);
  }

  activate(name, at) {
    if (this.active && this.resident.has(this.active)) this.set(this.active, "resident", at);
    this.active = name;
    if (name) this.set(name, "active", at);
  }

  mark(event) {
    if (event.order.length) this.marks.push({ at: event.ts, draft: event.order[0] });
    while (this.marks.length && this.marks[0].at < event.ts - KEPT_S) this.marks.shift();
  }

  iterate(event) {
    this.iterations.push(event);
    if (this.iterations.length > KEPT_ITERATIONS) this.iterations.shift();
  }

  finish(event) {
    this.open.delete(event.request_id);
    this.requests.unshift(event);
    this.requests.length = Math.min(this.requests.length, KEPT_REQUESTS);
  }

  /** Figures of the last iterations; null where there were none. */
  figures(num = 30) {
    const last = this.iterations.slice(-num);
    if (!last.length) return null;
    const sum = (of) => last.reduce((total, iteration) => total + of(iteration), 0);
    const drafted = sum((i) => i.drafted);
    return {
      rate: sum((i) => i.emitted) / (sum((i) => i.wall_us + i.gap_us + i.waited_us) / 1e6),
      length: sum((i) => i.emitted) / last.length,
      acceptance: drafted ? sum((i) => i.accepted) / drafted : null,
      at: last.at(-1).ts,
    };
  }

  /** Fractions of decode time by what ran. */
  shares() {
    const times = { desired: 0, fallback: 0, "target only": 0, "catch-up": 0, waiting: 0 };
    for (const i of this.iterations) {
      times[i.share.replace("_", " ")] += i.draft_us + i.verify_us;
      times["catch-up"] += i.catch_up_us;
      times.waiting += i.waited_us;
    }
    const total = Object.values(times).reduce((a, b) => a + b, 0);
    return Object.entries(times).map(([name, time]) => [name, total ? time / total : 0]);
  }
}
