// TypeScript SDK 2.x: client_ts_v2.mjs URL PROFILES SERVER legacy|auto|2026-07-28

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { main } from './checks.mjs';

await main({
  Client,
  Transport: StreamableHTTPClientTransport,
  requests: { elicitation: 'elicitation/create', sampling: 'sampling/createMessage', roots: 'roots/list' },
  callTool: (client, params, options) => client.callTool(params, options),
  options: (mode) => ({ versionNegotiation: { mode: mode.startsWith('2') ? { pin: mode } : mode } }),
});
