// What is true in this room right now? One pure function from state and message to state.
//
// The server sends a snapshot, then numbered events and passing frames. Nothing here touches the
// page, the clock or the network, so every rule can be tried with plain values.

import { closeStream, growStream, openStream } from "./streams.js";

/** The state before the first word from the server. */
export function initial({ room, me }) {
  return {
    room, me, ready: false, position: 0, gap: false,
    link: "connecting", refusal: null,
    participants: [], seats: [], items: [], more: false,
    runs: {}, calls: {}, approvals: {}, artifacts: {}, streams: {}, ended: null,
  };
}

/** Return the state after one message, which is `{type: ...}` as the server sends it. */
export function reduce(state, message) {
  switch (message.type) {
    case "hello": return hello(state, message);
    case "event": return onEvent(state, message);
    case "older": return older(state, message);
    case "presence": return presence(state, message.online);
    case "stream.open":
    case "stream.text": return withStream(state, message.stream, openStream(state.streams[message.stream], message));
    case "stream.delta": return withStream(state, message.stream, growStream(state.streams[message.stream], message));
    case "stream.close": return withStream(state, message.stream, closeStream(state.streams[message.stream], message));
    case "stream.mismatch": return mismatch(state, message);
    case "stream.forget": return withStream(state, message.stream, undefined);
    case "link": return { ...state, link: message.link, refusal: message.refusal || null };
    default: return state;
  }
}

function hello(state, message) {
  const room = { ...state.room, ...message.room };
  const next = { ...state, room, me: { ...state.me, ...message.me }, link: "open", refusal: null, gap: false, ready: true };
  if (message.snapshot) return snapshot({ ...next, position: message.position }, message.snapshot);
  // Resumed: durable events follow by themselves; what was being written is sent anew.
  return { ...next, streams: {} };
}

function snapshot(state, given) {
  const next = {
    ...state,
    participants: given.participants, seats: given.seats, more: given.more,
    items: [], calls: {}, approvals: {}, runs: {}, artifacts: {}, streams: {},
  };
  for (const event of given.items) recall(next, event);
  next.items = given.items;
  for (const run of given.runs) next.runs[run.id] = run;
  for (const call of given.calls) next.calls[call.call] = { ...next.calls[call.call], ...call, since: call.dispatched_at };
  for (const approval of given.approvals) {
    next.approvals[approval.id] = { ...next.approvals[approval.id], ...approval, state: "pending" };
  }
  for (const artifact of given.artifacts) next.artifacts[artifact.id] = artifact;
  for (const stream of given.streams) next.streams[stream.stream] = openStream(undefined, stream);
  return next;
}

function onEvent(state, event) {
  if (event.position <= state.position) return state;
  if (event.position !== state.position + 1) return { ...state, gap: true };
  const next = { ...state, position: event.position, items: [...state.items, event] };
  for (const part of ["runs", "calls", "approvals", "artifacts", "streams"]) next[part] = { ...state[part] };
  recall(next, event);
  settle(next, event);
  return next;
}

function older(state, message) {
  const first = state.items.length ? state.items[0].position : state.position + 1;
  const items = message.items.filter((event) => event.position < first);
  const past = { ...state, calls: {}, approvals: {} };
  for (const event of items) recall(past, event);
  const merged = (mine, known) => {
    const all = { ...mine };
    for (const [id, value] of Object.entries(known)) all[id] = { ...mine[id], ...value };
    return all;
  };
  return {
    ...state,
    items: [...items, ...state.items],
    more: items.length > 0 && items[0].position > 1,
    calls: merged(past.calls, state.calls),
    approvals: merged(past.approvals, state.approvals),
  };
}

// What an event says about calls and approvals: true of old events and of new ones. Changes `next`.
function recall(next, { kind, data, at }) {
  const call = data.call ? next.calls[data.call] : undefined;
  switch (kind) {
    case "call.proposed":
      next.calls[data.call] = { state: "proposed", ...data, ...call };
      break;
    case "approval.requested":
      next.approvals[data.approval] = { ...data, id: data.approval, state: "pending", asked_at: at };
      next.calls[data.call] = { call: data.call, run: data.run, tool: data.tool, title: data.title, ...call, state: "waiting" };
      break;
    case "approval.answered": {
      const known = next.approvals[data.approval];
      if (known) next.approvals[data.approval] = { ...known, agreed: [...(known.agreed || []).filter((one) => one.id !== data.by.id), data.by] };
      break;
    }
    case "call.paused":
      next.calls[data.call] = { call: data.call, run: data.run, tool: data.tool, title: data.title, ...call, state: "dispatched", paused: data.until };
      break;
    case "approval.decided": {
      const known = next.approvals[data.approval] || { id: data.approval, call: data.call };
      next.approvals[data.approval] = { ...known, state: data.decision, by: data.by, comment: data.comment, decided_at: at };
      break;
    }
    case "call.dispatched":
      next.calls[data.call] = { call: data.call, run: data.run, ...call, state: "dispatched", since: at, targets: data.targets || [] };
      break;
    case "call.settled":
      next.calls[data.call] = { ...call, ...data, state: "settled", targets: [] };
      break;
    case "artifact.saved":
      // The file is there, so nothing stands in its place any more.
      if (call && data.target) next.calls[data.call] = { ...call, targets: (call.targets || []).filter((name) => name !== data.target) };
      break;
  }
}

// What an event changes about the present. Changes `next`.
function settle(next, { kind, data, at }) {
  switch (kind) {
    case "message.posted":
      if (data.run) dropSaid(next, data);
      break;
    case "run.started":
      next.runs[data.run] = { id: data.run, agent: data.agent, member: data.member, parent: data.parent || null, state: "running" };
      break;
    case "run.parked":
    case "run.resumed":
      if (next.runs[data.run]) next.runs[data.run] = { ...next.runs[data.run], state: kind === "run.parked" ? "parked" : "running" };
      break;
    case "run.finished":
      delete next.runs[data.run];
      for (const [id, stream] of Object.entries(next.streams)) {
        if (stream.run !== data.run) continue;
        if (stream.of === "say") delete next.streams[id];
        else if (!stream.closed) next.streams[id] = { ...stream, closed: "dropped" };
      }
      break;
    case "artifact.saved": {
      const known = next.artifacts[data.artifact];
      next.artifacts[data.artifact] = {
        ...known, id: data.artifact, title: data.title, kind: data.kind, head: data.version, size: data.size, by: data.by, updated_at: at,
        // Only its owner writes on an artifact.
        owner: (data.by && data.by.member) || (known && known.owner) || null,
        media_type: data.media_type || "",
        language: data.language || (known && known.language) || "",
      };
      break;
    }
    case "participant.joined":
      next.participants = [...next.participants.filter((one) => one.id !== data.id), { online: false, ...data }];
      break;
    case "participant.left":
      next.participants = next.participants.filter((one) => one.id !== data.id);
      break;
    case "seat.added":
      next.seats = [...next.seats.filter((seat) => seat.slug !== data.slug), { slug: data.slug, name: data.name }];
      break;
    case "seat.removed":
      next.seats = next.seats.filter((seat) => seat.slug !== data.slug);
      break;
    case "room.closed":
      next.room = { ...next.room, closed: true };
      break;
  }
}

// A finished message takes the place of the text that was seen being written.
function dropSaid(next, data) {
  for (const [id, stream] of Object.entries(next.streams)) {
    if (stream.of !== "say" || stream.run !== data.run) continue;
    if (stream.closed || data.text.startsWith(stream.text.trim())) delete next.streams[id];
  }
}

function presence(state, online) {
  const here = new Set(online);
  return { ...state, participants: state.participants.map((one) => ({ ...one, online: here.has(one.id) })) };
}

function withStream(state, id, stream) {
  const streams = { ...state.streams };
  if (stream === undefined) delete streams[id];
  else streams[id] = stream;
  return { ...state, streams };
}

function mismatch(state, { stream, length }) {
  const known = state.streams[stream];
  return known && known.length >= length && !known.closed ? withStream(state, stream, { ...known, broken: true }) : state;
}

/** The files that calls under way are to make. A call that has settled has none, and neither has one whose run is over. */
export function filesToCome(state) {
  return Object.values(state.calls)
    .filter((call) => call.state === "dispatched" && state.runs[call.run])
    .flatMap((call) => (call.targets || []).map((name) => ({
      key: `${call.call}/${name}`, call: call.call, run: call.run, name, agent: call.agent || state.runs[call.run].agent,
    })));
}
