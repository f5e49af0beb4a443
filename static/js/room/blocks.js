// In what order is a room told? A pure function from state to the blocks of the timeline.
//
// A block is a person's message, an agent's turn, or a fact. A turn gathers what follows each other
// in one run: what the agent says, its calls, its questions, and what it is writing right now.

/** Return the blocks, oldest first. Keys stay the same while their block lives. */
export function blocksOf(state) {
  const blocks = [];
  const turns = new Map();
  const shown = new Set();

  const turnOf = (run, agent, member, at) => {
    const last = blocks[blocks.length - 1];
    if (last && last.type === "turn" && last.run === run) {
      if (!last.agent && agent) last.agent = agent;
      if (!last.member && member) last.member = member;
      return last;
    }
    const count = (turns.get(run) || 0) + 1;
    turns.set(run, count);
    const known = state.runs[run];
    const block = {
      type: "turn", key: `turn:${run}:${count}`, run, at, parts: [], says: 0,
      agent: agent || (known && known.agent) || agents.get(run) || null,
      member: member || (known && known.member) || members.get(run) || null,
    };
    blocks.push(block);
    return block;
  };
  const addCall = (id, run, at) => {
    if (shown.has(id)) return;
    shown.add(id);
    const call = state.calls[id];
    if (call === undefined) return;
    turnOf(run || call.run, call.agent, null, at).parts.push({ type: "call", key: `call:${id}`, id });
  };

  const agents = new Map();
  const members = new Map();
  for (const { kind, data } of state.items) {
    if (data.run && data.agent && data.agent.slug) agents.set(data.run, data.agent);
    if (data.run && data.member) members.set(data.run, data.member);
    if (data.run && data.decider && !members.has(data.run)) members.set(data.run, data.decider);
  }

  for (const event of state.items) {
    const { kind, data, at, position } = event;
    if (kind === "message.posted" && data.author.kind === "agent") {
      const turn = turnOf(data.run || `message:${position}`, data.author, data.for, at);
      turn.says += 1;
      turn.parts.push({ type: "say", key: `say:${turn.says}`, text: data.text, ...markOf(data) });
    } else if (kind === "message.posted") {
      blocks.push({ type: "person", key: `message:${position}`, author: data.author, automation: data.automation || null, text: data.text, about: data.about || null, at, position });
    } else if (kind === "call.proposed" || kind === "approval.requested" || kind === "call.settled") {
      addCall(data.call, data.run, at);
    } else if (kind === "run.finished" && data.outcome !== "completed") {
      const turn = turnOf(data.run, data.agent, data.member, at);
      turn.parts.push({ type: "end", key: "end", outcome: data.outcome, explanation: data.explanation });
    } else {
      const text = factOf(event, state);
      if (text !== null) blocks.push({ type: "fact", key: `fact:${position}`, text, at });
    }
  }
  for (const call of Object.values(state.calls)) {
    if (call.state !== "settled" && state.runs[call.run]) addCall(call.call, call.run, null);
  }
  for (const stream of Object.values(state.streams)) {
    // What a program writes is shown with its call.
    if (stream.of === "output" || (stream.of === "artifact" && stream.closed)) continue;
    const turn = turnOf(stream.run, stream.agent, stream.member, null);
    if (stream.of === "say") {
      turn.says += 1;
      turn.parts.push({ type: "say", key: `say:${turn.says}`, text: stream.text, live: !stream.closed });
    } else {
      turn.parts.push({ type: "writing", key: `writing:${stream.stream}`, stream });
    }
  }
  return blocks;
}

function factOf({ kind, data, actor }, state) {
  switch (kind) {
    case "participant.joined":
      return actor === `user:${data.id}` ? `${data.name} opened the room` : `${data.name} joined`;
    case "participant.left": return `${data.name} left`;
    case "seat.added": return `${data.name} takes a seat`;
    case "seat.removed": return `${data.name} gave up its seat`;
    case "room.closed": return "The room was closed";
    case "run.steered": return `${data.member.name} steers the work under way`;
    case "run.started": return data.parent ? `${data.agent.name} helps with this` : null;
    case "artifact.saved": return data.by && data.by.agent ? null : savedFact(data, state);
    default: return null;
  }
}

// What a message is that is not simply an answer.
function markOf(data) {
  if (data.broken_off) return { mark: "This answer broke off and could not be continued." };
  if (data.goes_on) return { mark: "This answer reached its length limit and goes on below." };
  if (data.corrected) return { mark: "Kaizen corrected this answer by its own record." };
  return {};
}

function savedFact(data) {
  const who = data.by && data.by.member ? data.by.member.name : "Someone";
  return `${who} saved version ${data.version} of “${data.title}”`;
}

/** Find the open question about a call. */
export function pendingApprovalOf(state, callId) {
  return Object.values(state.approvals).find((one) => one.call === callId && one.state === "pending");
}

/** Find any question about a call, open or decided. */
export function approvalOf(state, callId) {
  return Object.values(state.approvals).find((one) => one.call === callId);
}
