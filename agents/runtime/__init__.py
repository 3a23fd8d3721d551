"""The agent runtime: how an agent thinks, as a process of its own.

It plans, picks tools and decides when an answer is done. It holds references and token counts,
never a credential, a policy or a database handle; every model call and every tool call is asked of
the backend. It imports the standard library, pydantic, websockets and itself, nothing else (a test
proves it).
"""
