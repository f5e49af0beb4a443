// The approval card in the timeline: four questions, the exact arguments, then the buttons.
//
// The card keeps its place and size while a pointer or the focus is in it, whatever happens
// elsewhere; only when both have left does a decided card fold into its row.

import { argumentsBox, factsList, loadRequest, peopleList, placeNote } from "../approval.js";
import { Decision } from "../decision.js";
import { fill, h, icon, say } from "../dom.js";
import { problemNote, stateMark } from "../parts.js";
import { decisionWords, timeLeft } from "../words.js";

export class ApprovalCard {
  constructor(approval, { me, agent, onFold, onGrown }) {
    this.approval = approval;
    this.me = me;
    this.mine = approval.decider !== undefined && approval.decider.id === me.id;
    this.onFold = onFold;
    this.onGrown = onGrown;
    this.decided = null;
    this.title = h("h2", { id: `ask-${approval.id}` });
    this.sub = h("span", { class: "xs m" });
    this.left = h("span", { class: "left" });
    this.inside = h("div", { class: "in" });
    this.footer = h("footer");
    this.element = h("section", {
      class: "ask", tabindex: "0", "aria-labelledby": `ask-${approval.id}`, data: { approval: approval.id },
      on: { keydown: (event) => this.key(event), mouseleave: () => this.leave(), focusout: () => setTimeout(() => this.leave()) },
    }, h("header", null, icon("hand"), h("div", { class: "grow" }, this.title, this.sub), this.left), this.inside, this.footer);
    this.element.card = this;
    const who = agent ? agent.name : "An agent";
    say(this.title, `${who} asks: ${approval.title || approval.tool}`);
    // Where two people have to agree, the other one may be anybody here: the server says who.
    if (this.mine || approval.second) {
      this.decision = new Decision({ element: this.footer, onDecided: () => this.answered() });
      this.load();
    } else {
      this.onlyWatch();
    }
    this.sayWho();
    this.tick();
  }

  onlyWatch() {
    this.decision = undefined;
    this.inside.remove();
    const who = this.approval.second ? "Only the two people who have to agree see the arguments and decide." : "Only the person who asked the agent sees the arguments and decides.";
    fill(this.footer, h("span", { class: "sm m" }, who));
  }

  sayWho() {
    const agreed = this.approval.agreed || [];
    const whom = this.approval.decider ? this.approval.decider.name : "its member";
    if (agreed.length > 0) say(this.sub, `${agreed.map((one) => (one.id === this.me.id ? "You" : one.name)).join(" and ")} agreed. It waits for another person.`);
    else if (this.approval.second) say(this.sub, `Waiting for ${this.mine ? "you" : whom} and for a second person.`);
    else say(this.sub, this.mine ? "Waiting for you. Others here can see this but not decide." : `Waiting for ${whom}.`);
  }

  async load() {
    // Grey bars of about the final size, so that nothing below moves when the text arrives.
    fill(this.inside, [45, 90, 70, 100, 60].map((width) => h("span", { class: "skel late", style: `width:${width}%` })));
    try {
      this.detail = await loadRequest(this.approval.id);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      if (problem.status === 404 && !this.mine) { this.onlyWatch(); return; }
      fill(this.inside, problemNote(problem, () => this.load()));
      return;
    }
    if (this.decided !== null) return;
    fill(this.inside, factsList(this.detail), peopleList(this.detail), argumentsBox(this.detail), placeNote(this.detail),
      this.detail.why ? h("p", { class: "xs m" }, this.detail.why) : null);
    this.decision.show(this.detail);
    if (!this.held) this.onGrown();
  }

  key(event) {
    const field = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape" && this.decision && this.decision.back()) {
      event.stopPropagation();
      this.element.focus();
      return;
    }
    if (field !== null || event.ctrlKey || event.metaKey || event.altKey || event.repeat || !this.decision) return;
    if (this.decision.press(event.key.toLowerCase())) event.preventDefault();
  }

  answered() {
    if (this.decided !== null) return;
    fill(this.footer, h("span", { class: "sm m late" }, "Your answer was sent."));
  }

  /** Take in what the room now knows. */
  update(approval) {
    if (this.decided !== null) return;
    if (approval.state === "pending") {
      const heard = (approval.agreed || []).length !== (this.approval.agreed || []).length;
      this.approval = approval;
      if (!heard) return;
      this.sayWho();
      if (this.decision && (this.decision.idle || this.decision.mode === "done")) {
        this.decision.mode = "choose";
        this.load();
      }
      return;
    }
    this.approval = approval;
    this.decided = approval.state;
    this.element.classList.add("still");
    fill(this.footer, stateMark(decisionWords(approval.state, approval.by, this.me)), approval.comment ? h("span", { class: "sm m" }, `“${approval.comment}”`) : null);
    this.left.replaceChildren();
    say(this.sub, "Decided.");
    this.leave();
  }

  /** Tell whether the card must stay as it is. */
  get held() {
    return this.element.matches(":hover, :focus-within");
  }

  leave() {
    if (this.decided !== null && !this.held) this.onFold();
  }

  tick() {
    if (this.decided !== null) return;
    const left = timeLeft(this.approval.expires_at);
    if (this.left.dataset.text === left.text) return;
    this.left.dataset.text = left.text;
    fill(this.left, icon("clock"), left.text);
  }
}
