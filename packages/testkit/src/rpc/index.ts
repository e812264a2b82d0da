export {
  HttpFailure,
  type HttpFault,
  JsonRpcServer,
  type RpcCall,
  RpcFault,
  type RpcHandler,
} from './json-rpc-server.js'
