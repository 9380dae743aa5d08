use inspan::Agent;

fn no_gate(agent: Agent) -> Agent {
    agent.gate(5)
}

fn no_verdict(agent: Agent) -> Agent {
    agent.gate(|call: &inspan::GateCall| call.arguments.is_object())
}

fn main() {}
