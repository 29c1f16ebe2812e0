"""A stand-in for llama.cpp's process: it speaks the protocol of `local_worker.py`, and does what the words say.

`good...` is expected and `bad...` is not; `hold` is not answered before it is cancelled; `die` ends the process;
`refuse` is an error; a prompt of more than `LONGEST` characters is too long. What comes in is copied to the file that
the command line names.
"""

import json
import os
import sys

LONGEST = 4000


def say(**value: object) -> None:
    print(json.dumps(value), flush=True)


def answer(request: dict[str, object]) -> None:
    number = request["id"]
    words = str(request.get("words", request.get("text"))).strip()
    if len(str(request.get("graded", request.get("text")))) > LONGEST:
        say(id=number, error="too many tokens", too_long=True)
    elif words.startswith("hold"):
        return
    elif words.startswith("die"):
        os._exit(3)
    elif words.startswith("refuse"):
        say(id=number, error="no grammar", too_long=False)
    elif request["op"] == "chat":
        say(id=number, text='{"score_1": 4, "score_2": 2, "ranking": 1.5}', finished="cut off" not in words)
    else:
        say(id=number, likely=[[" correct", -1.0], [" wrong", -2.0]], expected=[-1.0 if words[:4] == "good" else -9.0])


def main() -> None:
    with open(sys.argv[1], "a") as log:
        for line in sys.stdin:
            log.write(line)
            log.flush()
            value = json.loads(line)
            if "path" in value:
                say(
                    **(
                        {"failed": f"it is broken, says {os.getpid()}"}
                        if "broken" in value["path"]
                        else {"ready": True}
                    )
                )
            elif "cancel" in value:
                say(id=value["cancel"], cancelled=True)
            else:
                answer(value)


main()
