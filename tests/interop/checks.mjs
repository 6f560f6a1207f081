// The checks that the TypeScript clients share: those of checks.py, in the same order and under the same names.
//
// A client script calls `main` with its SDK:
//     Client, Transport                    its classes
//     requests                             what `setRequestHandler` takes for elicitation, sampling and roots
//     callTool(client, params, options)
//     options(mode)                        what the client's constructor takes in a mode

import { readFileSync } from 'node:fs';

const LIMIT = 40_000; // milliseconds for one check
const ANSWER = 'Ada Lovelace'; // what the client says when the server asks it something
const ROOT = 'file:///srv/interop';
const VERSION = '2025-11-25';
const MODERN_VERSION = '2026-07-28';

// MODE: legacy; auto, which tries the modern era first; or a version of the modern era, which is spoken without asking.
const [url, profiles, name, mode = 'legacy'] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(profiles))[name];
let sdk; // what `main` was given

let failed = false;

function fail(check, error) {
  failed = true;
  console.log(`fail ${check}: ${String(error).replace(/\s+/g, ' ').slice(0, 500)}`);
}

async function check(title, body) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${LIMIT} ms`)), LIMIT);
  });
  try {
    await Promise.race([body(), limit]);
    console.log(`ok ${title}`);
  } catch (error) {
    fail(title, error);
  } finally {
    clearTimeout(timer);
  }
}

function expect(condition, ...what) {
  if (!condition) {
    throw new Error(what.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition, what, seconds = 10) {
  for (const end = Date.now() + seconds * 1000; !condition() && Date.now() < end; ) {
    await sleep(20);
  }
  expect(condition(), `not within ${seconds} s:`, what);
}

/** Records what the client sends and receives. */
class Wire {
  exchanges = [];

  fetch = async (target, init) => {
    const message = init.method === 'POST' ? JSON.parse(init.body) : {};
    const sent = Object.fromEntries(new Headers(init.headers));
    const exchange = { method: init.method, message, sent, status: undefined, headers: new Headers(), body: '', complete: false };
    this.exchanges.push(exchange);
    const response = await fetch(target, init);
    exchange.status = response.status;
    exchange.headers = response.headers;
    exchange.streams = (response.headers.get('content-type') ?? '').startsWith('text/event-stream');
    if (!response.body) {
      exchange.complete = true;
      return response;
    }
    const decoder = new TextDecoder();
    const tap = new TransformStream({
      transform(chunk, controller) {
        exchange.body += decoder.decode(chunk, { stream: true });
        controller.enqueue(chunk);
      },
      flush() {
        exchange.complete = true; // the server ended the body
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(tap), { status, statusText, headers });
  };

  find(method, rpc) {
    return this.exchanges.filter((e) => e.method === method && (!rpc || e.message.method === rpc));
  }

  /** For the log of a run that failed. */
  dump() {
    for (const e of this.exchanges) {
      console.error(e.method, JSON.stringify(e.message), JSON.stringify(e.sent));
      const headers = JSON.stringify(Object.fromEntries(e.headers));
      console.error('   ', e.status, headers, JSON.stringify(e.body.slice(0, 2000)), e.complete ? 'end' : 'open');
    }
  }

  carried(method, text) {
    return this.find(method).some((e) => e.streams && e.body.includes(text));
  }
}

/** Opens a session; `inbox` gathers what the server sends of its own accord. */
async function connect(wire, inbox) {
  const capabilities = { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } };
  const client = new sdk.Client({ name: 'interop', version: '1' }, { capabilities, ...sdk.options(mode) });
  client.setRequestHandler(sdk.requests.elicitation, ({ params }) => {
    inbox.asked.push('elicitation/create');
    if (!inbox.accept) {
      return { action: 'decline' };
    }
    const { required, properties = {} } = params.requestedSchema;
    const texts = Object.keys(properties).filter((field) => properties[field].type === 'string');
    const fields = required?.length ? required : texts.slice(0, 1);
    return { action: 'accept', content: Object.fromEntries(fields.map((field) => [field, ANSWER])) };
  });
  client.setRequestHandler(sdk.requests.sampling, () => {
    inbox.asked.push('sampling/createMessage');
    return { role: 'assistant', model: 'interop', content: { type: 'text', text: ANSWER } };
  });
  client.setRequestHandler(sdk.requests.roots, () => {
    inbox.asked.push('roots/list');
    return { roots: [{ uri: ROOT, name: 'interop' }] };
  });
  client.fallbackNotificationHandler = async ({ method }) => {
    inbox.notes.push(method);
  };
  client.onerror = (error) => inbox.errors.push(String(error));
  const transport = new sdk.Transport(new URL(url), { fetch: wire.fetch });
  await client.connect(transport, { timeout: LIMIT });
  return { client, transport };
}

const newInbox = () => ({ notes: [], asked: [], errors: [], accept: true });

async function end({ client, transport }) {
  await transport.terminateSession();
  await client.close();
}

const textOf = ({ content }) => content.filter((part) => part.type === 'text').map((part) => part.text).join('\n');

async function call({ client }, step, options = {}) {
  const result = await sdk.callTool(client, { name: step.tool, arguments: step.arguments }, { timeout: LIMIT, ...options });
  const text = textOf(result);
  expect(!result.isError, 'the tool reported an error:', text.slice(0, 200));
  expect(step.equals === undefined || text === step.equals, 'got', text.slice(0, 200), 'instead of', step.equals);
  expect(step.contains === undefined || text.includes(step.contains), step.contains, 'is not in', text.slice(0, 200));
  expect(step.length === undefined || text.length === step.length, 'got', text.length, 'characters instead of', step.length);
  return text;
}

/** What the three methods answer for a session id. */
async function statuses(session) {
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-session-id': session,
    'mcp-protocol-version': VERSION,
  };
  const result = [];
  for (const method of ['POST', 'GET', 'DELETE']) {
    const body = method === 'POST' ? JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }) : undefined;
    const response = await fetch(url, { method, headers, body });
    await response.body?.cancel();
    result.push(response.status);
  }
  return result;
}

const allGone = (answers) => answers.every((status) => status === 404);

/** What works in either era. */
async function checkFeatures(session, wire, inbox, modern = false) {
  const { client } = session;
  const count = (method) => inbox.notes.filter((note) => note === method).length;

  await check('tools', async () => {
    const listed = (await client.listTools()).tools.map((tool) => tool.name);
    const missing = profile.tools.filter((tool) => !listed.includes(tool));
    expect(!missing.length, 'missing', missing);
  });

  await check('call', () => call(session, profile.call));

  await check('error', async () => {
    let result;
    try {
      result = await sdk.callTool(client, { name: 'no-such-tool', arguments: {} });
    } catch (error) {
      expect(String(error).includes('no-such-tool'), 'the error does not name the tool:', String(error));
      return;
    }
    expect(result.isError, 'an unknown tool answered', textOf(result));
  });

  if (profile.large) {
    await check('large result', () => call(session, profile.large));
  }

  if (profile.parallel) {
    await check('parallel calls', async () => {
      const { tool, argument, prefix } = profile.parallel;
      const one = (n) => call(session, { tool, arguments: { [argument]: `number ${n}` }, equals: `${prefix}number ${n}` });
      await Promise.all([...Array(8).keys()].map(one));
    });
  }

  if (!modern) {
    await check('ping', () => client.ping());
  }

  if (profile.level && !modern) {
    await check('logging level', () => client.setLoggingLevel(profile.level));
  }

  if (profile.progress) {
    await check('progress', async () => {
      let seen = 0;
      await call(session, profile.progress, { onprogress: () => seen++ });
      expect(seen >= profile.progress.at_least, seen, 'progress notifications before the result');
      expect(wire.carried('POST', 'notifications/progress'), 'not on the stream of the call');
    });
  }

  if (profile.log && !modern) {
    await check('log messages', async () => {
      const enough = count('notifications/message') + profile.log.at_least;
      await call(session, profile.log);
      await until(() => count('notifications/message') >= enough, `${profile.log.at_least} log messages`);
    });
  }

  if (profile.standalone && !modern) {
    await check('GET notifications', async () => {
      const { subscribe, method, at_least } = profile.standalone;
      if (subscribe) {
        await client.subscribeResource({ uri: subscribe });
      }
      const enough = count(method) + at_least;
      await call(session, profile.standalone);
      await until(() => count(method) >= enough, `${at_least} of ${method}`);
      expect(wire.carried('GET', method), 'not on the GET stream');
    });
  }

  if (profile.resources) {
    await check('resources', async () => {
      const { resources } = await client.listResources();
      expect(resources.length, 'no resource is listed');
      const { contents } = await client.readResource({ uri: resources[0].uri });
      expect(contents.length, resources[0].uri, 'is empty');
    });
  }

  if (profile.prompt) {
    await check('prompt', async () => {
      const { messages } = await client.getPrompt({ name: profile.prompt });
      expect(messages.length, 'the prompt has no message');
    });
  }

  if (profile.roots) {
    await check('roots', async () => {
      await until(() => inbox.asked.includes('roots/list'), 'the server asked for the roots');
      await call(session, { ...profile.roots, contains: ROOT });
    });
  }

  if (profile.elicitation) {
    await check('elicitation', async () => {
      await call(session, { ...profile.elicitation, contains: ANSWER });
      inbox.accept = false;
      const text = await call(session, profile.elicitation);
      expect(!text.includes(ANSWER), 'a declined elicitation was answered');
      expect(inbox.asked.filter((method) => method === 'elicitation/create').length === 2, 'asked', inbox.asked);
    });
  }

  if (profile.sampling) {
    await check('sampling', () => call(session, { ...profile.sampling, contains: ANSWER }));
  }
}

/** The checks that need an open session. */
async function checkSession(session, wire, inbox) {
  const { client, transport } = session;

  await check('initialize', async () => {
    const opened = wire.find('POST', 'initialize').at(-1);
    expect(transport.protocolVersion === VERSION, 'negotiated', transport.protocolVersion);
    expect(opened.status === 200 && transport.sessionId, 'no session id came with', opened.status);
    const told = wire.find('POST', 'notifications/initialized').map((e) => e.status);
    expect(told.length === 1 && told[0] === 202, 'notifications/initialized was answered with', told);
  });

  await check('GET stream', async () => {
    await until(() => wire.find('GET').some((e) => e.streams && e.status === 200), 'the GET stream is open');
  });

  await checkFeatures(session, wire, inbox);

  if (profile.cancel) {
    await check('cancel', async () => {
      let seen = 0;
      const abort = new AbortController();
      const abandoned = call(session, profile.cancel, { signal: abort.signal, onprogress: () => seen++ }).then(
        () => 'answered',
        () => 'aborted',
      );
      await until(() => seen, 'the first progress of the call');
      const exchange = wire.find('POST', 'tools/call').at(-1);
      abort.abort('changed its mind');
      expect((await abandoned) === 'aborted', 'the cancelled call was answered');
      await until(() => wire.find('POST', 'notifications/cancelled').at(-1)?.status === 202, '202 for notifications/cancelled');
      await until(() => exchange.complete, "the end of the cancelled call's stream", 5);
      expect(!exchange.body.includes('"result"'), 'the cancelled call was answered');
      const before = seen;
      await sleep(1000);
      expect(seen === before, 'progress of the cancelled call went on');
      await client.ping();
    });
  }

  await check('two sessions', async () => {
    const other = await connect(new Wire(), newInbox());
    expect(other.transport.sessionId !== transport.sessionId, 'two sessions have one id');
    for (const step of profile.sessions) {
      await call(step.session === 2 ? other : session, step);
    }
    await end(other);
    await client.ping();
  });

  if (profile.crash) {
    await check('crash', async () => {
      const victim = await connect(new Wire(), newInbox());
      let outcome;
      try {
        outcome = await sdk.callTool(victim.client, { name: profile.crash.tool, arguments: {} });
      } catch (error) {
        expect(!String(error).includes('timed out'), 'no answer to the call');
      }
      expect(!outcome || outcome.isError, 'the call that ends the session answered', outcome);
      const answers = await statuses(victim.transport.sessionId);
      expect(allGone(answers), 'POST, GET and DELETE after the crash were answered with', answers);
      await victim.client.close();
      await client.ping();
    });
  }

  await check('transport', async () => {
    expect(!inbox.errors.length, 'the client reported', inbox.errors);
    const odd = wire.exchanges.filter((e) => ![200, 202, 204].includes(e.status));
    if (odd[0]?.message.method === 'server/discover') {
      odd.shift();
    }
    expect(!odd.length, 'unexpected answers:', odd.map((e) => [e.method, e.message.method, e.status]));
  });
}

/** The GETs that took the stream of a request up again. */
const resumed = (wire) => wire.find('GET').filter((e) => 'last-event-id' in e.sent);

/** A call that takes longer than connections live: its progress and its result arrive, each once and in order. */
async function checkPolled(session) {
  const { step, last, at_least } = profile.polled;
  const values = [];
  await call(session, profile.polled, { onprogress: ({ progress }) => values.push(progress) });
  const whole = values.slice(0, -1).every((value, n) => Math.abs(value - (n + 1) * step) < step / 100);
  expect(whole, 'progress was lost, repeated or out of order:', values);
  expect(values.at(-1) === last, 'the last progress is', values.at(-1));
  expect(values.length >= at_least, values.length, 'progress notifications before the result');
}

/** The checks of a session whose server ends the connections of calls (`--poll-after`). */
async function checkPolledSession(session, wire) {
  await check('call resumed', async () => {
    await checkPolled(session);
    expect(resumed(wire).length >= 2, 'the stream was resumed', resumed(wire).length, 'times');
    const posted = wire.find('POST', 'tools/call');
    expect(posted.length === 1, 'the call was sent', posted.length, 'times');
    // Events without a message only tell where the client is.
    const ids = [...posted, ...resumed(wire)].flatMap((e) => [...e.body.matchAll(/^id: *(\S+)\ndata: *\S/gm)].map(([, id]) => id));
    expect(new Set(ids).size === ids.length, 'an event came twice:', ids);
  });

  await check('quiet call resumed', async () => {
    // Nothing is said until the result, so connections end without an event of their own.
    const before = resumed(wire).length;
    await call(session, profile.polled);
    expect(resumed(wire).length - before >= 2, 'the stream was resumed', resumed(wire).length - before, 'times');
  });

  await check('call', () => call(session, profile.call));
}

/** The checks of a server without sessions. */
async function checkModern(session, wire, inbox) {
  await check('discover', async () => {
    const first = wire.exchanges[0];
    expect(first.message.method === 'server/discover', 'the first request was', first.message);
    expect(first.status === 200, 'it was answered with', first.status, first.body);
    const spoken = session.client.getNegotiatedProtocolVersion();
    expect(spoken === MODERN_VERSION, 'spoken:', spoken);
  });

  await checkFeatures(session, wire, inbox, true);

  if (profile.polled) {
    // Nothing can be resumed, so the server leaves the connection alone.
    await check('call on one connection', async () => {
      await checkPolled(session);
      expect(!wire.find('GET').length, 'something was resumed');
    });
  }

  if (profile.sessionless) {
    await check('nothing is kept', async () => {
      for (let n = 0; n < 2; n++) {
        await call(session, { tool: 'count', arguments: {}, equals: '1' });
      }
    });
  }

  await check('transport', async () => {
    expect(!inbox.errors.length, 'the client reported', inbox.errors);
    const odd = wire.exchanges.filter((e) => ![200, 202].includes(e.status));
    expect(!odd.length, 'unexpected answers:', odd.map((e) => [e.method, e.message.method, e.status]));
    expect(!wire.exchanges.some((e) => e.headers.has('mcp-session-id')), 'a session id came with an answer');
  });
}

export async function main(given) {
  sdk = given;
  const wire = new Wire();
  const inbox = newInbox();
  let session;
  try {
    session = await connect(wire, inbox);
  } catch (error) {
    fail('initialize', error);
  }
  if (session && mode !== 'legacy' && profile.modern) {
    await checkModern(session, wire, inbox);
    await session.client.close();
  } else if (session) {
    const id = session.transport.sessionId;
    if (profile.polled) {
      await checkPolledSession(session, wire);
    } else {
      if (mode === 'auto') {
        await check('fallback', async () => {
          const first = wire.exchanges[0];
          expect(first.message.method === 'server/discover', 'the first request was', first.message);
          expect(first.status === 400, 'the probe was answered with', first.status, first.body);
          expect(JSON.parse(first.body).error.code === -32600, 'the probe:', first.body);
        });
      }
      await checkSession(session, wire, inbox);
    }
    await check('DELETE', async () => {
      await end(session);
      const ended = wire.find('DELETE').map((e) => e.status);
      expect(ended.length === 1 && [200, 204].includes(ended[0]), 'DELETE:', ended);
      const answers = await statuses(id);
      expect(allGone(answers), 'afterwards POST, GET and DELETE were answered with', answers);
    });
  }
  if (failed) {
    wire.dump();
  }
  process.exit(failed ? 1 : 0);
}
