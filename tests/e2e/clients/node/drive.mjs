// The `openai` package for Node: `create`, and the helper `stream` for streamed turns. The protocol, and what an answer
// looks like, is that of drivers/pipe.py. The package is found in the folder that the first argument names.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";

const { OpenAI } = createRequire(join(process.argv[2], "package.json"))("openai");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const hear = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};
const tell = (value) => process.stdout.write(JSON.stringify(value) + "\n");

const run = async (name, args) => {
  tell({ call: [name, args] });
  return (await hear()).result;
};

const ask = async (chat, messages, stream) => {
  const { completions } = chat.client.chat;
  const request = { model: chat.model, tools: chat.tools, messages };
  if (!stream) return [await completions.create(request), 0];
  const events = completions.stream({ ...request, stream_options: { include_usage: true } });
  let pieces = 0;
  for await (const _ of events) pieces += 1;
  return [await events.finalChatCompletion(), pieces];
};

const say = async (chat, text, stream) => {
  const messages = [...chat.messages, { role: "user", content: text }];
  const seen = [];
  do {
    const [completion, pieces] = await ask(chat, messages, stream);
    const { message, finish_reason: finish } = completion.choices[0];
    const calls = [];
    messages.push(message);
    for (const { id, function: f } of message.tool_calls ?? []) {
      messages.push({ role: "tool", tool_call_id: id, content: await run(f.name, f.arguments) });
      calls.push([f.name, JSON.parse(f.arguments)]);
    }
    seen.push({ text: message.content ?? "", finish, calls, output: completion.usage.completion_tokens, pieces });
  } while (seen.at(-1).calls.length);
  chat.messages = messages;
  return seen;
};

let chat;
for (let order; (order = await hear()); ) {
  if (order.begin) {
    const { base_url: baseURL, api_key: apiKey, model, system, tools } = order.begin;
    const client = new OpenAI({ apiKey, baseURL, maxRetries: 0 });
    chat = { client, model, tools, messages: [{ role: "system", content: system }] };
    tell({ ready: true });
    continue;
  }
  try {
    tell({ seen: await say(chat, order.say, order.stream) });
  } catch (error) {
    tell({ error: { class: error.constructor.name, status: error.status ?? null, text: String(error.message) } });
  }
}
