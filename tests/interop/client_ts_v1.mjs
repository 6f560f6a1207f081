// TypeScript SDK 1.x: client_ts_v1.mjs URL PROFILES SERVER

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { main } from './checks.mjs';

await main({
  Client,
  Transport: StreamableHTTPClientTransport,
  requests: { elicitation: ElicitRequestSchema, sampling: CreateMessageRequestSchema, roots: ListRootsRequestSchema },
  callTool: (client, params, options) => client.callTool(params, undefined, options),
  options: () => ({}),
});
