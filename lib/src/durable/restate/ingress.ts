// Requests to a Restate server over HTTP: invocations through its ingress, and the registration of a deployment through
// its admin API. Needs no SDK.

import type { Clock } from "../../core/engine/internal.ts";
import type { SendRequest } from "./invocation.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { systemClock } from "../../core/engine/internal.ts";
import { MisuseError, RuntimeError } from "../../core/model/internal.ts";
import { serviceNames, sweeperKey } from "./names.ts";

/** How to reach the ingress of a Restate server. */
export type RestateIngress = {
  /** The URL of the ingress, for example `http://127.0.0.1:8080`. */
  readonly ingress: string;
  /** Headers of every request, for example `authorization`. Default: none. */
  readonly headers?: { readonly [name: string]: string };
  /** The prefix that the services were given (`prefix` of {@link RestateServiceOptions}). Default: `Everturn`. */
  readonly prefix?: string;
  /** How long a request may take, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
  /** Sends requests. Default: `fetch` of the platform. */
  readonly fetch?: typeof fetch;
  /** Source of time. Default: the system clock. */
  readonly clock?: Clock;
};

const defaultTimeoutMs = 2000;

/**
 * Sends an invocation through the ingress. Rejects with `RuntimeError` (`storage_failed`) if the server did not accept
 * it.
 */
export async function sendThrough(ingress: RestateIngress, request: SendRequest): Promise<void> {
  const { service, key, handler, input, idempotencyKey, delayMs } = request;
  const delay = delayMs > 0 ? `?delay=${Math.ceil(delayMs)}ms` : "";
  const path = `/${service}/${encodeURIComponent(key)}/${handler}/send${delay}`;
  const headers = idempotencyKey === null ? {} : { "idempotency-key": idempotencyKey };
  await post(ingress, urlOf("ingress", ingress.ingress, path), input, headers);
}

/** Starts the sweeper, if it does not run. The services have to be registered. */
export async function startRestateSweeper(ingress: RestateIngress): Promise<void> {
  const service = serviceNames(ingress.prefix).sweeper;
  const request = { service, handler: "start", key: sweeperKey, input: {}, idempotencyKey: null, delayMs: 0 };
  await sendThrough(ingress, request);
}

/** Options of {@link registerRestateDeployment}. */
type RestateDeployment = RestateIngress & {
  /** The URL of the admin API, for example `http://127.0.0.1:9070`. */
  readonly admin: string;
  /** The address at which Restate reaches the service processes. */
  readonly uri: string;
};

/**
 * Registers the service processes at `uri` with the Restate server, and starts the sweeper. New invocations go to the
 * deployment that was registered last. Invocations that have begun stay with their deployment. Registering the same
 * processes again changes nothing.
 */
export async function registerRestateDeployment(deployment: RestateDeployment): Promise<void> {
  const { admin, uri } = deployment;
  // Discovery calls the service processes, so it may take longer than a send.
  const patient = { timeoutMs: 30_000, ...deployment };
  await post(patient, urlOf("admin", admin, "/deployments"), { uri });
  await startRestateSweeper(patient);
}

async function post(
  { headers = {}, timeoutMs = defaultTimeoutMs, fetch: send = fetch, clock = systemClock }: RestateIngress,
  url: string,
  body: unknown,
  moreHeaders: { readonly [name: string]: string } = {},
): Promise<void> {
  const timeout = new AbortController();
  const cancelTimer = startTimer(clock, timeoutMs, () =>
    timeout.abort(new Error(`no response was received for ${timeoutMs} ms`)),
  );
  try {
    const response = await send(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers, ...moreHeaders },
      body: JSON.stringify(body),
      signal: timeout.signal,
      redirect: "manual",
    });
    const text = await response.text();
    if (response.ok) return;
    throw new Error(`status ${response.status}: ${text.slice(0, 500)}`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `Restate did not accept a request to ${new URL(url).host}: ${why}`;
    throw new RuntimeError("storage_failed", { message, cause });
  } finally {
    cancelTimer();
  }
}

function urlOf(name: string, base: string, path: string): string {
  if (/^https?:\/\//.test(base) && URL.canParse(base)) return `${base.replace(/\/+$/, "")}${path}`;
  throw new MisuseError("invalid_argument", `${name} must be a URL that begins with http:// or https://`, {
    path: [name],
  });
}

/** Checks the URL of the ingress and the prefix. Throws `MisuseError`. */
export function checkIngress({ ingress, prefix }: RestateIngress): void {
  urlOf("ingress", ingress, "");
  serviceNames(prefix);
}
