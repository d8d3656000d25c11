"""An agent that dials out to a Conch and answers in its turn. It needs the package "websockets", version 10 or newer:
   CONCH_AGENT_TOKEN=... python3 examples/agent.py ws://127.0.0.1:7421/agent
"""

import asyncio, json, os, sys, uuid
import websockets


async def main(url):
    headers = {"Authorization": f"Bearer {os.environ['CONCH_AGENT_TOKEN']}"}
    # The name of this argument changed with version 14.
    key = "extra_headers" if int(websockets.__version__.split(".")[0]) < 14 else "additional_headers"
    async with websockets.connect(url, **{key: headers}) as socket:
        async for frame in socket:
            message = json.loads(frame)
            if "method" in message and "id" in message:
                answer = await respond(socket, message["method"], message.get("params", {}))
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}))


async def respond(socket, method, params):
    if method == "initialize":
        return {"result": {"protocolVersion": 1, "agentCapabilities": {}}}
    if method == "session/new":
        return {"result": {"sessionId": str(uuid.uuid4())}}
    if method == "session/prompt":
        text = "".join(part.get("text", "") for part in params["prompt"])
        content = {"type": "text", "text": f"I was sent {len(text)} characters."}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": params["sessionId"], "update": update}
        await socket.send(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
        return {"result": {"stopReason": "end_turn"}}
    return {"error": {"code": -32601, "message": f"{method} is not known"}}


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:7421/agent"))
