// The prompt box: one chat completion, streamed; a second click stops it.

import { request, serverSent } from "./api.js";

const element = (id) => document.getElementById(id);

/** Let the form speak to ``model``. */
export function connectPrompt(modelOf) {
  let running = null;
  element("prompt").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    running = new AbortController();
    element("send").textContent = "Stop";
    try {
      await generate(modelOf(), running.signal);
    } catch (error) {
      if (error.name !== "AbortError") fail(error.message);
    } finally {
      running = null;
      element("send").textContent = "Generate";
    }
  });
  element("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element("prompt").requestSubmit();
  });
}

function body(model) {
  const draft = element("draft").value;
  return JSON.stringify({
    model,
    messages: [{ role: "user", content: element("text").value }],
    max_tokens: Number(element("tokens").value),
    temperature: Number(element("temperature").value),
    stream: true,
    stream_options: { include_usage: true },
    ...(draft && { draft_model: draft === "off" ? null : draft }),
  });
}

async function generate(model, signal) {
  const answer = element("answer");
  answer.className = answer.textContent = element("figures").textContent = "";
  const options = { method: "POST", body: body(model), signal, headers: { "Content-Type": "application/json" } };
  const reply = await request("v1/chat/completions", options);
  let closing = null;
  for await (const [, data] of serverSent(reply)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    answer.append(chunk.choices[0]?.delta.content ?? "");
    if (chunk.timings) closing = chunk;
  }
  if (closing) element("figures").textContent = describe(closing);
}

function describe({ timings, metrics, lossless }) {
  const drafts = metrics.speculative_decoding;
  const parts = [
    `${timings.predicted_n} tokens`,
    `${timings.predicted_per_second.toFixed(0)} tokens/s`,
    drafts.num_spec_steps
      ? `${drafts.mean_acceptance_length.toFixed(2)} tokens per iteration, ` +
        `${(100 * drafts.draft_acceptance_rate).toFixed(0)} % of ${drafts.num_draft_tokens} drafted tokens accepted`
      : "no drafts",
    lossless ? "the target's own text" : "not the target's own text",
  ];
  return parts.join(" · ");
}

function fail(message) {
  element("answer").className = "error";
  element("answer").textContent = message;
}
