// How does a page ask the server? The REST API with the session, and problems as one kind of error.

/** A refusal or a failure, worded so that it may be shown. */
export class Problem extends Error {
  constructor({ status, code, message, hint, correlation, field, errors, retry }) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.correlation = correlation;
    this.field = field;
    this.errors = errors || [];
    this.retry = retry;
  }
}

/** A random value that names one attempt to create something. */
export function attemptKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function csrf() {
  const input = document.querySelector("input[name=csrfmiddlewaretoken]");
  return input === null ? "" : input.value;
}

async function problemOf(response) {
  let body = {};
  if ((response.headers.get("content-type") || "").includes("json")) {
    body = await response.json().catch(() => ({}));
  }
  const signedOut = response.status === 401 || body.code === "not_authenticated";
  const outOfDate = response.status === 403 && /^CSRF/.test(body.detail || "");
  if (outOfDate) body = { ...body, detail: "You signed in again since this page was loaded. Load it again; what you typed is kept." };
  return new Problem({
    status: response.status,
    code: signedOut ? "not_authenticated" : body.code || "error",
    message: signedOut ? "You are signed out." : body.detail || body.title || `The server answered with ${response.status}.`,
    hint: signedOut ? "Sign in again; what you typed is kept." : undefined,
    correlation: body.correlation_id || response.headers.get("x-correlation-id") || "",
    field: body.field || (body.errors && body.errors[0] && body.errors[0].field),
    errors: body.errors,
    retry: response.status >= 500 || response.status === 429,
  });
}

/** Call the API. Resolves with the decoded body, or throws a Problem. */
export async function api(method, path, body, { key, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRFToken"] = csrf();
  if (key) headers["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, {
      method, headers, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem({
      status: 0, code: "unreachable", retry: true,
      message: "Kaizen did not answer.", hint: "The connection may be away for a moment. Nothing was lost.",
    });
  }
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return null;
  return (response.headers.get("content-type") || "").includes("json") ? response.json() : null;
}

/** Read every page of a listing, up to `limit` rows. */
export async function listing(path, limit = 200) {
  const rows = [];
  let next = path;
  while (next && rows.length < limit) {
    const page = await api("GET", next);
    rows.push(...page.results);
    next = page.next ? page.next.slice(page.next.indexOf("/api/v1/") + "/api/v1/".length) : null;
  }
  return rows;
}
