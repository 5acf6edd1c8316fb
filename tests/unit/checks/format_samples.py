"""One whole call in every format, with arguments that need no escapes."""

from __future__ import annotations

SAMPLES = {
    "hermes": '<tool_call>\n{"name": "get_sky", "arguments": {"city": "Oslo", "days": [12, true]}}\n</tool_call>',
    "qwen3_coder": "<tool_call>\n<function=get_sky>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
    "longcat": '<longcat_tool_call>{"name": "get_sky", "arguments": {"city": "Oslo"}}</longcat_tool_call>',
    "glm": "<tool_call>get_sky\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
    "llama3_json": '<|python_tag|>{"name": "get_sky", "parameters": {"city": "Oslo"}}',
    "pythonic": "[get_sky(city='Oslo', days=[12, 3.5], at={'k': None}), get_sea()]",
    "olmo": '<function_calls>\nget_sky(city="Oslo", days=12)\nget_sea()\n</function_calls>',
    "lfm2": "<|tool_call_start|>[get_sky(city='Oslo', days=12)]<|tool_call_end|>",
    "mistral": '[TOOL_CALLS]get_sky[CALL_ID]Vvv0Dy[ARGS]{"city": "Oslo"}[TOOL_CALLS]get_sea[ARGS]{}',
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_sky\n"
    '```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_sky:0<|tool_call_argument_begin|>"
    '{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
    "harmony": "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentary to=functions.get_sky "
    '<|constrain|>json<|message|>{"city": "Oslo"}<|call|>',
    "invoke": '<function_calls>\n<invoke name="get_sky">\n<parameter name="city">Oslo</parameter>\n</invoke>\n'
    "</function_calls>",
    "minicpm": '<function name="get_sky"><param name="city">Oslo</param></function>',
    "gemma": '<|tool_call>call:get_sky{city:<|"|>Oslo<|"|>,days:[12,true],at:{k:3.5}}<tool_call|>',
    "phi4": 'functools[{"name": "get_sky", "arguments": {"city": "Oslo"}}]',
    "jamba": '<tool_calls>[{"name": "get_sky", "arguments": {"city": "Oslo"}}]</tool_calls>',
    "granite": '<|tool_call|>[{"name": "get_sky", "arguments": {"city": "Oslo"}}]',
    "apertus": '<|tools_prefix|>[{"get_sky": {"city": "Oslo"}}]<|tools_suffix|>',
    "internlm": '<|action_start|> <|plugin|>\n{"name": "get_sky", "parameters": {"city": "Oslo"}}<|action_end|>',
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_sky", "parameters": {"city": "Oslo"}}]'
    "<|END_ACTION|>",
    "json": '```json\n{"name": "get_sky", "arguments": {"city": "Oslo", "days": 12}}\n```',
}

# Families with more than one notation.
VARIANTS = [
    '<function=get_sky>{"city": "Oslo"}</function>',
    '[TOOL_CALLS] [{"name": "get_sky", "arguments": {"city": "Oslo"}}]',
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_sky">\n<｜DSML｜parameter name="city" string="true">Oslo'
    '</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>",
    '<|open|>call tool="get_sky" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument'
    '<|sep|><|open|>argument key="days" type="number"<|sep|>12<|close|>argument<|sep|><|close|>call<|sep|>',
    '<|start|>assistant to=functions.get_sky<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>',
    "<start_function_call>call:get_sky{city:<escape>Oslo<escape>,days:12}<end_function_call>",
    '<function_call> {"name": "get_sky", "arguments": {"city": "Oslo"}}',
    '{"name": "get_sky", "parameters": {"city": "Oslo"}}; {"name": "get_sea", "parameters": {}}',
]
