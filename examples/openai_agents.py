"""Run an agent of the OpenAI Agents SDK under Kaizen's boundary.

    pip install -r examples/requirements.txt
    OPENAI_BASE_URL=… OPENAI_API_KEY=… KAIZEN_PASSWORD=… \\
        python examples/openai_agents.py --username mara --model MODEL "Write down what Kaizen is."

The SDK's loop talks to the model; every tool that the model sees comes from the run's frozen
catalog, and every call it makes is only proposed here. Kaizen decides it as the member, asks where
policy says so, executes and records it. The program waits meanwhile, and the model gets the
bounded projection.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
from typing import Any

from agents import (
    Agent,
    AsyncOpenAI,
    FunctionTool,
    OpenAIChatCompletionsModel,
    Runner,
    set_tracing_disabled,
)
from agents.exceptions import AgentsException
from agents.tool_context import ToolContext
from plain_http import Kaizen, Refused, Run, say_wait

INSTRUCTIONS = (
    "You help the people in a room. Use the tools for everything that is to be kept. A result says"
    " by its `outcome` whether a call was done: say plainly what was not."
)
MAX_TURNS = 20


def tools_of(run: Run) -> list[FunctionTool]:
    """Offer the run's frozen catalog to the SDK, one function tool for each entry."""
    return [_tool(run, entry) for entry in run.catalog().values()]


def _tool(run: Run, entry: dict[str, Any]) -> FunctionTool:
    name = entry["name"]

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        try:
            call = await asyncio.to_thread(
                run.call,
                name,
                json.loads(arguments or "{}"),
                waiting=say_wait,
            )
        except (Refused, ValueError) as refusal:
            return json.dumps({"outcome": "refused", "message": str(refusal)})
        print(f"{name}: {call['outcome']}", flush=True)
        return json.dumps(call["projection"], ensure_ascii=False)

    return FunctionTool(
        name=name,
        description=entry["description"],
        params_json_schema=entry["input_schema"],
        on_invoke_tool=invoke,
        # Kaizen's schemas are checked by Kaizen; they need not be of the strict subset.
        strict_json_schema=False,
    )


async def work(run: Run, model: str, task: str) -> None:
    """Let the agent work on a task to its end, and close the run with its last word."""
    set_tracing_disabled(True)
    agent = Agent(
        name="Kaizen",
        instructions=INSTRUCTIONS,
        model=OpenAIChatCompletionsModel(model=model, openai_client=AsyncOpenAI()),
        tools=list(await asyncio.to_thread(tools_of, run)),
    )
    try:
        streamed = Runner.run_streamed(agent, task, max_turns=MAX_TURNS)
        async for _ in streamed.stream_events():
            pass
    except AgentsException as problem:
        await asyncio.to_thread(run.finish, f"I could not finish: {problem}", failed=True)
        raise
    await asyncio.to_thread(run.finish, str(streamed.final_output))
    print(f"finished: {streamed.final_output}")


def main(arguments: list[str]) -> int:
    """Sign in, open a run and let the agent work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task")
    parser.add_argument("--url", default=os.environ.get("KAIZEN_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--username", required=True)
    parser.add_argument("--room", default="First light")
    parser.add_argument("--agent", default="scribe")
    parser.add_argument("--model", required=True)
    options = parser.parse_args(arguments)
    kaizen = Kaizen(options.url)
    password = os.environ.get("KAIZEN_PASSWORD") or getpass.getpass(f"{options.username}: ")
    try:
        kaizen.sign_in(options.username, password)
        run = kaizen.open_run(kaizen.room(options.room), options.agent)
        asyncio.run(work(run, options.model, options.task))
    except (Refused, LookupError, AgentsException) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
