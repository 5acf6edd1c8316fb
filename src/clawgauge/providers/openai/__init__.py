"""OpenAI's two protocols, spoken by many servers: chat completions and Responses."""
