"""Agents of other libraries inside a step: each turn of a model and each tool is recorded, approvals ask people.

```python
@wf.step(start=True, people=True)
async def answer(question: str, ctx: Context) -> str:
    reply = await run_agent(ctx, agent, question, policies={"refund": Policy(by="finance")})
    return reply.output
```
"""

from __future__ import annotations

from wfdash.agents.run import AgentReply, Usage, elicitation_callback, run_agent

__all__ = ["AgentReply", "Usage", "elicitation_callback", "run_agent"]
